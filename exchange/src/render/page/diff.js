// Differences: of lists of numbers, after Myers, and of texts line by line.

const MOST_EDITS = 1200;

/** Stretches `[a0, a1, b0, b1]` in which two lists differ. */
function differing(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let endA = a.length;
  let endB = b.length;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) {
    endA -= 1;
    endB -= 1;
  }
  if (start === endA && start === endB) return [];
  if (start === endA || start === endB) return [[start, endA, start, endB]];
  const found = myers(a.slice(start, endA), b.slice(start, endB));
  return found.map(([a0, a1, b0, b1]) => [a0 + start, a1 + start, b0 + start, b1 + start]);
}

function myers(a, b) {
  const [n, m] = [a.length, b.length];
  const most = Math.min(n + m, MOST_EDITS);
  const reached = new Int32Array(2 * most + 3);
  const traces = [];
  const middle = most + 1;
  for (let d = 0; d <= most; d += 1) {
    traces.push(reached.slice(middle - d - 1, middle + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && reached[middle + k - 1] < reached[middle + k + 1]);
      let x = down ? reached[middle + k + 1] : reached[middle + k - 1] + 1;
      let y = x - k;
      while (x < n && y < m && a[x] === b[y]) {
        x += 1;
        y += 1;
      }
      reached[middle + k] = x;
      if (x >= n && y >= m) return backtrack(traces, n, m);
    }
  }
  return [[0, n, 0, m]];
}

function backtrack(traces, n, m) {
  const found = [];
  let [x, y] = [n, m];
  for (let d = traces.length - 1; d > 0; d -= 1) {
    const trace = traces[d];
    const at = (k) => trace[k + d + 1];
    const k = x - y;
    const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const before = down ? k + 1 : k - 1;
    const fromX = at(before);
    const fromY = fromX - before;
    const [editX, editY] = down ? [fromX, fromY + 1] : [fromX + 1, fromY];
    const last = found[0];
    if (last && last[0] === editX && last[2] === editY) {
      last[0] = fromX;
      last[2] = fromY;
    } else found.unshift([fromX, editX, fromY, editY]);
    [x, y] = [fromX, fromY];
  }
  return found;
}

/** Stands behind a last line without an end, so that it is another one than with it. */
const NO_END = "\u2060";

function linesOf(text) {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  else lines[lines.length - 1] += NO_END;
  return lines;
}

const bare = (line) => line.replace(NO_END, "");

/** Two texts as lines, and where they differ. */
function compareTexts(before, after) {
  const numbers = new Map();
  const number = (line) => {
    if (!numbers.has(line)) numbers.set(line, numbers.size);
    return numbers.get(line);
  };
  const [a, b] = [linesOf(before), linesOf(after)];
  const stretches = differing(a.map(number), b.map(number));
  const sum = (from, to) => stretches.reduce((n, stretch) => n + stretch[to] - stretch[from], 0);
  return { a, b, stretches, removed: sum(0, 1), added: sum(2, 3) };
}

/** What two lines have in common before and after what differs. */
function common(a, b) {
  const most = Math.min(a.length, b.length);
  let start = 0;
  while (start < most && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < most - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  return [start, end];
}

const AROUND = 3;
const MOST_ROWS = 1500;

/** A difference as rows with numbers; all lines are shown when there are few around. */
function diffRows({ a, b, stretches }) {
  const rows = [];
  const row = (kind, left, right, line, mark) => {
    const text = bare(line).replace(/\r$/, "\u240d");
    const [start, end] = mark || [0, 0];
    const body = mark && start + end > 0 && start + end < text.length
      ? [text.slice(0, start), h("mark", {}, text.slice(start, text.length - end)), text.slice(text.length - end)]
      : text;
    rows.push(h("div", { class: `row ${kind}` }, h("i", {}, left || ""), h("i", {}, right || ""), h("code", {}, body || " ", line.endsWith(NO_END) && kind !== "same" && h("em", {}, " no line end"))));
  };
  let shown = 0;
  stretches.forEach(([a0, a1, b0, b1], index) => {
    const from = Math.max(a0 - AROUND, shown);
    if (from > shown || (index === 0 && from > 0)) {
      rows.push(h("div", { class: "gap" }, `${plural(from - shown, "line")} the same`));
    }
    for (let at = from; at < a0; at += 1) row("same", at + 1, at + 1 + b0 - a0, a[at]);
    const paired = a1 - a0 === b1 - b0;
    const mark = (at) => (paired ? common(bare(a[a0 + at]), bare(b[b0 + at])) : undefined);
    for (let at = a0; at < a1; at += 1) row("del", at + 1, 0, a[at], mark(at - a0));
    for (let at = b0; at < b1; at += 1) row("add", 0, at + 1, b[at], mark(at - b0));
    const next = stretches[index + 1];
    const until = Math.min(a1 + AROUND, next ? next[0] : a.length);
    for (let at = a1; at < until; at += 1) row("same", at + 1, at + 1 + b1 - a1, a[at]);
    shown = until;
  });
  if (shown < a.length) rows.push(h("div", { class: "gap" }, `${plural(a.length - shown, "line")} the same`));
  return rows;
}

/** Rows of a difference to look at; many are cut, with a button for the rest. */
function rowsBlock(rows) {
  const block = h("div", { class: "diff", tabindex: 0, role: "group", "aria-label": "Changed lines" }, rows.slice(0, MOST_ROWS));
  if (rows.length <= MOST_ROWS) return block;
  const more = h("button", { class: "more", type: "button", on: { click: () => {
    more.remove();
    block.append(...rows.slice(MOST_ROWS));
  } } }, `Show ${plural(rows.length - MOST_ROWS, "more line")}`);
  return [block, more];
}

const diffBlock = (compared, rows = diffRows) => rowsBlock(rows(compared));

const PATCH_FILE = /^(?:\*\*\* (Add|Update|Delete) File: (.+)|diff --git a\/.+? b\/(.+)|\+\+\+ (?:b\/)?([^\t]+).*)$/;

/** The files of a patch, with their lines as they are written: `{path, rows, added, removed}`. */
function patchFiles(text) {
  const files = [];
  let file = null;
  for (const line of text.split("\n")) {
    const found = PATCH_FILE.exec(line);
    if (found && !(found[4] && file && !file.rows.length)) {
      file = { path: found[2] || found[3] || found[4], kind: found[1] || "Update", rows: [], added: 0, removed: 0 };
      files.push(file);
    } else if (!file || /^(\*\*\* |--- |\+\+\+ |index |new file|deleted file|similarity|rename )/.test(line)) continue;
    else if (line.startsWith("@@")) file.rows.push(h("div", { class: "gap" }, line));
    else {
      const kind = line[0] === "+" ? "add" : line[0] === "-" ? "del" : "same";
      file.added += kind === "add" ? 1 : 0;
      file.removed += kind === "del" ? 1 : 0;
      file.rows.push(h("div", { class: `row bare ${kind}` }, h("code", {}, line.slice(1) || " ")));
    }
  }
  return files;
}

const isPatch = (text) => /^\s*(\*\*\* Begin Patch|diff --git |--- \S)/.test(text);

const lineCounts = (added, removed) => [h("span", { class: "plus" }, `+${added}`), " ", h("span", { class: "minus" }, `\u2212${removed}`)];

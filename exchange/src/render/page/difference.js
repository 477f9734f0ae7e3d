// The difference of any two turns, on one branch or on two: prompts, files, notes, messages.

const sideName = (side) => (branches.length > 1 ? `${side.branch.name}, turn ${turns[side.turn].turn}` : `turn ${turns[side.turn].turn}`);

function pickSide(label, chosen, build) {
  const names = h("select", { "aria-label": `${label} branch` }, branches.map((branch) => h("option", { value: branch.index, selected: branch === chosen.branch }, branch.name)));
  const number = h("input", { type: "number", "aria-label": `${label} turn`, value: turns[chosen.turn].turn, min: 1 });
  const change = () => {
    const branch = branches[Number(names.value)];
    go(build({ branch, turn: turnNumbered(branch, Number(number.value)) }));
  };
  names.addEventListener("change", change);
  number.addEventListener("change", change);
  return h("span", { class: "pick" }, h("small", {}, label), branches.length > 1 && names, number);
}

/** Which lines stand beside each other, and which files were looked at: kept in the browser. */
const SPLIT = "turntree-split";
const VIEWED = "turntree-viewed";
const MOST_VIEWED = 400;

const isSplit = () => remembered((store) => store.getItem(SPLIT)) === "true";

/** A button that puts old and new lines beside each other, or below each other again. */
const splitButton = () => h("button", { type: "button", class: "button", "aria-pressed": String(isSplit()), on: { click: () => {
  remembered((store) => store.setItem(SPLIT, String(!isSplit())));
  here.hash = null;
  route();
} } }, "Side by side");

/** A difference as rows of an old line and the new one beside it. */
function splitRows({ a, b, stretches }) {
  const rows = [];
  const half = (kind, number, line, mark) => {
    if (line === undefined) return [h("i", { class: "none" }), h("code", { class: "none" })];
    const text = bare(line);
    const [start, end] = mark || [0, 0];
    const isPart = start + end > 0 && start + end < text.length;
    return [h("i", { class: kind }, number), h("code", { class: kind }, isPart ? [text.slice(0, start), h("mark", {}, text.slice(start, text.length - end)), text.slice(text.length - end)] : text || " ", line.endsWith(NO_END) && kind && h("em", {}, " no line end"))];
  };
  const row = (...halves) => rows.push(h("div", { class: "row two" }, halves));
  const gap = (lines) => lines > 0 && rows.push(h("div", { class: "gap" }, `${plural(lines, "line")} the same`));
  let shown = 0;
  stretches.forEach(([a0, a1, b0, b1], index) => {
    const from = Math.max(a0 - AROUND, shown);
    gap(from - shown);
    for (let at = from; at < a0; at += 1) row(half("", at + 1, a[at]), half("", at + 1 + b0 - a0, a[at]));
    for (let at = 0; at < Math.max(a1 - a0, b1 - b0); at += 1) {
      const [old, now] = [a0 + at < a1 ? a[a0 + at] : undefined, b0 + at < b1 ? b[b0 + at] : undefined];
      const mark = old !== undefined && now !== undefined ? common(bare(old), bare(now)) : null;
      row(half("del", a0 + at + 1, old, mark), half("add", b0 + at + 1, now, mark));
    }
    const until = Math.min(a1 + AROUND, stretches[index + 1] ? stretches[index + 1][0] : a.length);
    for (let at = a1; at < until; at += 1) row(half("", at + 1, a[at]), half("", at + 1 + b1 - a1, a[at]));
    shown = until;
  });
  gap(a.length - shown);
  return rows;
}

/** By path: the turn up to one that wrote a file last. */
function writersUpTo({ branch, turn }) {
  const found = new Map();
  for (const index of branch.line.slice(0, branch.places.get(turn) + 1)) for (const [path] of turns[index].change?.files || []) found.set(path, turns[index].id.slice(0, 12));
  return found;
}

/** Marks of files that were looked at; one that was written since is another. */
function viewedMarks(a, b, paths, tell) {
  const [before, after] = [writersUpTo(a), writersUpTo(b)];
  const name = (path) => `${before.get(path) ?? ""}..${after.get(path) ?? ""}:${path}`;
  const all = () => /** @type {string[]} */ (JSON.parse(remembered((store) => store.getItem(VIEWED)) || "[]"));
  const is = (path) => all().includes(name(path));
  const count = () => tell(paths.filter(is).length);
  const set = (path, viewed) => {
    const others = all().filter((other) => other !== name(path));
    remembered((store) => store.setItem(VIEWED, JSON.stringify((viewed ? [...others, name(path)] : others).slice(-MOST_VIEWED))));
    count();
  };
  return { is, set, count };
}

/** Paths as a tree in which a folder with one folder in it is one step. */
function fileTree(paths, link) {
  const top = { folders: new Map(), files: /** @type {any[]} */ ([]) };
  for (const path of paths) {
    const names = path.split("/");
    const folder = names.slice(0, -1).reduce((at, name) => at.folders.get(name) ?? at.folders.set(name, { folders: new Map(), files: [] }).get(name), top);
    folder.files.push([names.at(-1), path]);
  }
  const inside = ({ folders, files }) => h("ul", {}, [...folders].sort().map(([name, folder]) => {
    let [names, at] = [name, folder];
    while (at.files.length === 0 && at.folders.size === 1) {
      const [[next, only]] = at.folders;
      [names, at] = [`${names}/${next}`, only];
    }
    return h("li", {}, h("span", { class: "quiet" }, `${names}/`), inside(at));
  }), files.sort().map(([name, path]) => h("li", {}, link(name, path))));
  return h("nav", { class: "tree", "aria-label": "Files of the difference" }, inside(top));
}

function diffView(a, b, wanted = /** @type {string | null} */ (null)) {
  const head = h("header", { class: "view-head" }, h("h2", {}, "Difference"),
    h("p", { class: "picks" }, pickSide("from", a, (chosen) => diffHash(chosen, b)), pickSide("to", b, (chosen) => diffHash(a, chosen)),
      h("a", { class: "button", href: diffHash(b, a) }, "swap"), splitButton()));
  const [before, after] = [stateAt(a.turn), stateAt(b.turn)];
  const article = (...parts) => h("article", { class: "page", "aria-label": "Difference" }, head, parts);
  if (!before || !after) return article(h("p", { class: "quiet" }, "One of these turns has expired."));
  const parts = [promptsDiff(a, b), filesDiff(a, b, wanted), entriesDiff(before, after), talkDiff(before, after, a, b)];
  return article(parts, parts.flat(Infinity).filter(Boolean).length === 0 && h("p", { class: "quiet" }, "No difference."));
}

/** What was asked on each of two branches since they parted, side by side. */
function promptsDiff(a, b) {
  const upTo = ({ branch, turn }) => branch.line.slice(0, branch.places.get(turn) + 1);
  const [of, others] = [upTo(a), upTo(b)];
  let shared = 0;
  while (shared < of.length && of[shared] === others[shared]) shared += 1;
  const prompts = (line) => line.slice(shared).filter((turn) => turns[turn].prompt !== undefined);
  const columns = [[a, prompts(of)], [b, prompts(others)]];
  if (columns.every(([, list]) => list.length === 0)) return [];
  const column = ([side, list]) => h("div", {}, h("h4", {}, `Only in ${sideName(side)}`),
    list.length ? lazily(list, (some) => some.map((turn) => h("a", { class: "line-link", href: hashOf(side.branch, turn) }, h("b", {}, `#${turns[turn].prompt}`), " ", titleOf(turns[turn], 200))), 30) : h("p", { class: "quiet" }, "no prompt"));
  return part("Prompts", null, h("div", { class: "beside" }, columns.map(column)));
}

const changedKeys = (before, after, same) =>
  [...new Set([...before.keys(), ...after.keys()])].filter((key) => !same(before.get(key), after.get(key))).sort();

/** The files that differ; the one that is wanted first, and open. */
function filesDiff(a, b, wanted) {
  const [before, after] = [stateAt(a.turn), stateAt(b.turn)];
  const paths = changedKeys(before.files, after.files, (x, y) => x?.text === y?.text && x?.mode === y?.mode);
  if (!paths.length) return [];
  paths.sort((a, b) => Number(b === wanted) - Number(a === wanted));
  const open = paths.length <= 8;
  const told = h("span", { role: "status" });
  const marks = viewedMarks(a, b, paths, (number) => { told.textContent = `${paths.length}${number ? `, ${number} viewed` : ""}`; });
  marks.count();
  const block = (path) => {
    const made = changeBlock(path, before.files.get(path)?.text, after.files.get(path)?.text, { open: open && !marks.is(path), rows: isSplit() ? splitRows : diffRows });
    if (path === wanted) {
      made.classList.add("wanted");
      made.unfold();
      made.open = true;
    }
    const tick = h("input", { type: "checkbox", checked: marks.is(path), title: "Viewed", "aria-label": `Viewed: ${path}`, on: { change: () => {
      marks.set(path, tick.checked);
      made.open = !tick.checked;
    } } });
    return h("div", { class: "viewable" }, made, tick);
  };
  const blocks = lazily(paths, (some) => some.map(block), 30);
  const link = (name, path) => h("a", { href: `${diffHash(a, b)}:${encodeURIComponent(path)}`, "aria-current": path === wanted ? "true" : null }, name);
  return part("Files", told, paths.length > 1 ? h("div", { class: isSplit() ? "treed split" : "treed" }, fileTree([...paths].sort(), link), blocks) : h("div", { class: isSplit() ? "split" : null }, blocks));
}

function entriesDiff(before, after) {
  const keys = changedKeys(before.entries, after.entries, (x, y) => x === y);
  const lists = changedKeys(before.lists, after.lists, (x, y) => x && y && x.length === y.length && x.every((n, at) => n === y[at])).filter((name) => !isConversation(name));
  const listed = (state, section) => (state.lists.get(section) || []).map((number) => (typeof textAt(number) === "string" ? textAt(number) : textAt(number).id)).join("\n");
  const blocks = keys.map((place) => changeBlock(place, before.entries.get(place), after.entries.get(place), { open: !place.startsWith("meta/") }));
  const more = lists.map((section) => fold({ class: "file" }, [h("span", { class: "path" }, section)], () => diffBlock(compareTexts(listed(before, section), listed(after, section)))));
  return blocks.length + more.length ? part("Scratchpad, memory, state", String(blocks.length + more.length), blocks, more) : [];
}

function talkDiff(before, after, a, b) {
  const sections = changedKeys(before.lists, after.lists, (x, y) => x === y).filter(isConversation);
  return sections.map((section) => {
    const [old, now] = [before.lists.get(section) || [], after.lists.get(section) || []];
    const stretches = differing(old, now);
    const gone = stretches.flatMap(([a0, a1]) => old.slice(a0, a1));
    const added = stretches.flatMap(([, , b0, b1]) => now.slice(b0, b1));
    if (!gone.length && !added.length) return [];
    const side = (numbers, name, extra, open) => numbers.length > 0 && fold({ class: `dropped ${extra}` }, [`${plural(numbers.length, "message")} only in ${name}`], () => lazily(numbers, (some) => messageBlocks(some, { extra })), { open });
    return part(`Messages of ${agentOf(section)}`, `+${added.length} \u2212${gone.length}`, side(gone, sideName(a), "gone", false), side(added, sideName(b), "", added.length <= 12));
  });
}

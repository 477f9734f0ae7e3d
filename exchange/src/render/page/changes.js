// What turns changed beside the talk: files, notes, state, and the whole context on demand.

const UNSHOWN = { binary: "not text", large: "too large to be shown here", lost: "cannot be read" };

function unshown(value) {
  return h("p", { class: "quiet" }, `${UNSHOWN[value.why]}: ${bytes(value.bytes)}, ${value.id.slice(0, 12)}`);
}

const wholeText = (number, path = "") => {
  const value = textAt(number);
  if (typeof value !== "string") return unshown(value);
  return languageOf(path) ? readable(value, (part) => codeBlock(part, path.split(".").at(-1))) : plainBlock(value);
};

/** A file or value that changed; `open` when there is not too much of it. */
function changeBlock(path, before, after, { note = null, open = false, lines = null, rows = diffRows } = {}) {
  const is = (number) => number !== undefined && number !== null;
  const kind = !is(before) ? "new" : !is(after) ? "gone" : "changed";
  let compared = null;
  const compare = () => {
    if (compared) return compared;
    const [a, b] = [before, after].map((number) => (is(number) ? textAt(number) : ""));
    compared = typeof a === "string" && typeof b === "string" ? compareTexts(a, b) : { shown: [a, b].filter((side) => typeof side === "object") };
    return compared;
  };
  const [added, removed] = lines || [compare().added, compare().removed];
  const body = () => (compare().shown ? compare().shown.map(unshown) : diffBlock(compare(), rows));
  return fold({ class: `file ${kind}`, "data-path": path },
    [h("span", { class: "path" }, path), note && h("small", {}, note), kind !== "changed" && h("small", {}, kind), added !== undefined && h("span", {}, lineCounts(added, removed))],
    body, { open: open && added + removed <= 60, words: () => [before, after].filter(is).map((number) => textAt(number)).filter((side) => typeof side === "string").join("\n") });
}

const part = (title, about, ...children) => h("section", { class: "part" }, h(document.body.classList.contains("listing") ? "h2" : "h3", { class: "part-title" }, title, about !== null && h("small", {}, about)), children);

/** The same inside of a turn, which has no headings. */
const turnPart = (title, about, ...children) => h("div", { class: "part" }, h("p", { class: "part-title" }, title, h("small", {}, about)), children);

/** The file of a turn that a path in a call means, which may be absolute. */
const fileAt = (files, path) => files.find(([name]) => path === name || path.endsWith(`/${name}`));

/** By path of the files that calls of a turn wrote, which are shown there: how many calls. */
function writtenByCalls(turn) {
  const written = new Map();
  const { files } = turn.change;
  if (!files.length) return written;
  const messages = addedMessages(turn).map(messageAt);
  const failed = new Set(messages.flatMap((message) => message.results || []).filter((result) => result[2]).map(([id]) => id));
  for (const [id, name, input] of messages.flatMap((message) => message.calls || [])) {
    if (failed.has(id)) continue;
    for (const path of cardOf(name || "tool", input).paths || []) {
      const file = fileAt(files, path);
      if (file) written.set(file[0], (written.get(file[0]) || 0) + 1);
    }
  }
  return written;
}

/** What a call alone did to a file of its turn, with the lines of the file: the difference in its card. */
const writtenBy = (branch, turn, written) => ([, name, input]) => {
  const { paths } = written.size ? cardOf(name || "tool", input) : { paths: [] };
  const file = paths?.length === 1 && fileAt(turns[turn].change.files, paths[0]);
  if (!file || written.get(file[0]) !== 1) return null;
  const [before, after] = [formerly(branch, turn, `${FILES}/${file[0]}`), file[3]].map((number) => (number === undefined ? "" : textAt(number)));
  if (typeof before !== "string" || typeof after !== "string") return null;
  return { facts: [h("span", {}, lineCounts(file[1], file[2]))], body: () => diffBlock(compareTexts(before, after)), open: file[1] + file[2] <= OPEN_DIFF };
};

/** Files that a turn changed: those that its calls show are there again only where files alone are looked at. */
function filesPart(branch, turn, written) {
  const blocks = (some) => some.map(([path, added, removed, number, mode]) =>
    changeBlock(path, formerly(branch, turn, `${FILES}/${path}`), number, { note: mode && mode !== "file" ? mode : null, lines: [added, removed], open: some.length <= 3 }));
  const part = (files, name) => {
    const sum = (side) => files.reduce((total, file) => total + file[side], 0);
    return files.length > 0 && h("div", { "data-kind": "files", class: name }, turnPart("Files", [`${files.length}, `, lineCounts(sum(1), sum(2))], lazily(files, blocks, 12)));
  };
  const { files } = turns[turn].change;
  return [part(files.filter(([path]) => !written.has(path)), null), outline.kind === "files" && part(files.filter(([path]) => written.has(path)), "written")];
}

/** Notes, memory, state that a turn changed; facts about the session (`meta`) stand in its details. */
function notesPart(branch, turn) {
  const { change } = turns[turn];
  const blocks = change.entries.filter(([section]) => section !== "meta").map(([section, key, number]) => {
    const place = key ? `${section}/${key}` : section;
    return changeBlock(place, formerly(branch, turn, place), number, { open: !section.endsWith("system-prompt") && !section.endsWith("/state") });
  });
  for (const [section, splices] of Object.entries(change.lists).filter(([name]) => !isConversation(name))) {
    const old = splices.some(([, removed]) => removed > 0) ? stateAt(change.base)?.lists.get(section) || [] : [];
    for (const [at, removed, added] of splices) {
      for (let index = 0; index < Math.max(removed, added.length); index += 1) {
        blocks.push(changeBlock(`${section}/${at + index}`, index < removed ? old[at + index] : undefined, added[index], { open: true }));
      }
    }
  }
  return blocks.length ? h("div", { "data-kind": "files" }, turnPart("Scratchpad, memory, state", String(blocks.length), lazily(blocks, (some) => some, 12))) : [];
}

/** All that an agent would be given after a turn, folded. */
function contextPart(turn) {
  const make = () => {
    const state = stateAt(turn);
    const lists = [...state.lists].map(([section, numbers]) => {
      const isTalk = isConversation(section);
      return fold({ class: "file" }, [h("span", { class: "path" }, section), h("small", {}, isTalk ? plural(numbers.length, "message") : plural(numbers.length, "entry", "entries"))],
        () => lazily(numbers, (some) => (isTalk ? messageBlocks(some) : some.map((number) => wholeText(number)))));
    });
    const one = (path, number, note) => fold({ class: "file" }, [h("span", { class: "path" }, path), h("small", {}, note)], () => wholeText(number, path));
    const files = [...state.files].sort(([a], [b]) => (a < b ? -1 : 1)).map(([path, { text: number, size }]) => one(`${FILES}/${path}`, number, bytes(size)));
    const entries = [...state.entries].map(([place, number]) => one(place, number, ""));
    return [lists, entries, lazily(files, (some) => some)];
  };
  return fold({ class: "file whole" }, [h("span", { class: "path" }, "Full context after this turn")], make);
}

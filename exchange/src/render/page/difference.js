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

function diffView(a, b, wanted = /** @type {string | null} */ (null)) {
  const head = h("header", { class: "view-head" }, h("h2", {}, "Difference"),
    h("p", { class: "picks" }, pickSide("from", a, (chosen) => diffHash(chosen, b)), pickSide("to", b, (chosen) => diffHash(a, chosen)),
      h("a", { class: "button", href: diffHash(b, a) }, "swap")));
  const [before, after] = [stateAt(a.turn), stateAt(b.turn)];
  const article = (...parts) => h("article", { class: "page", "aria-label": "Difference" }, head, parts);
  if (!before || !after) return article(h("p", { class: "quiet" }, "One of these turns has expired."));
  const parts = [promptsDiff(a, b), filesDiff(before, after, wanted), entriesDiff(before, after), talkDiff(before, after, a, b)];
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
function filesDiff(before, after, wanted) {
  const paths = changedKeys(before.files, after.files, (x, y) => x?.text === y?.text && x?.mode === y?.mode);
  if (!paths.length) return [];
  paths.sort((a, b) => Number(b === wanted) - Number(a === wanted));
  const open = paths.length <= 8;
  const block = (path) => {
    const made = changeBlock(path, before.files.get(path)?.text, after.files.get(path)?.text, { open });
    if (path === wanted) {
      made.classList.add("wanted");
      made.unfold();
      made.open = true;
    }
    return made;
  };
  return part("Files", `${paths.length}`, lazily(paths, (some) => some.map(block), 30));
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

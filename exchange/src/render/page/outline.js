// The outline: prompts with their steps below, and filters by kind; only the rows that are seen are there.

const list = byId("list");
const rows = byId("rows");
const CHAPTER = 56;
const STEP = 30;

const outline = { kind: "all", opened: new Set(), rows: [], tops: [0], key: "" };

/** The turns of a branch that the filter shows. */
const shownTurns = (branch) => storyOf(branch).kinds.get(outline.kind).slice();

/** By chapter: the turns that the filter shows. */
function shownByChapter(branch) {
  const chapters = chaptersOf(branch);
  if (outline.kind === "all") return new Map(chapters.map((chapter) => [chapter, chapter.turns]));
  const shown = new Map();
  const place = (turn) => branch.places.get(turn);
  let at = 0;
  for (const turn of shownTurns(branch)) {
    while (at + 1 < chapters.length && place(chapters[at + 1].turn) <= place(turn)) at += 1;
    if (shown.has(chapters[at])) shown.get(chapters[at]).push(turn);
    else shown.set(chapters[at], [turn]);
  }
  return shown;
}

/** Makes the list of rows again: chapters, and steps of those that are open. */
function layOutline(branch) {
  const chapters = shownByChapter(branch);
  Object.assign(outline, { rows: [], tops: [0] });
  const put = (row, height) => { outline.tops[outline.rows.push(row)] = outline.tops.at(-1) + height; };
  let at = 0;
  let before = "";
  for (const [chapter, shown] of chapters) {
    // The row of the chapter is that of its prompt, too.
    const from = chapter.number !== undefined && shown[0] === chapter.turn ? 1 : 0;
    const steps = shown.length - from;
    const isOpen = chapters.size === 1 || outline.opened.has(chapter.turn);
    const day = dayOf(turns[chapter.turn].at);
    put({ chapter, turn: chapter.turn, at, of: chapters.size, isOpen, steps, isNewDay: day !== before && before !== "" }, CHAPTER);
    before = day;
    for (let step = 0; isOpen && step < steps; step += 1) put({ chapter: null, turn: shown[from + step], at: step, of: steps }, STEP);
    at += 1;
  }
  rows.style.height = `${outline.tops.at(-1)}px`;
}

const rowAtHeight = (height) => lastFitting(outline.rows.length, (row) => outline.tops[row] <= height);

function drawOutline() {
  const first = rowAtHeight(list.scrollTop);
  const last = Math.min(outline.rows.length, rowAtHeight(list.scrollTop + list.clientHeight) + 5);
  rows.replaceChildren(...outline.rows.slice(first, last).map((row, at) => rowOf(row, outline.tops[first + at])));
  const current = rows.querySelector('[aria-selected="true"]');
  if (current) list.setAttribute("aria-activedescendant", current.id);
  else list.removeAttribute("aria-activedescendant");
}

/** What came of a prompt, in a line. */
const chapterFacts = (chapter) => [
  chapter.turns.length > 1 && plural(chapter.turns.length - (chapter.number === undefined ? 0 : 1), "step"),
  chapter.tools > 0 && plural(chapter.tools, "tool"),
  chapter.failed > 0 && h("span", { class: "failed" }, `${chapter.failed} failed`),
  chapter.files.size > 0 && h("span", {}, lineCounts(chapter.added, chapter.removed)),
  chapter.compactions > 0 && plural(chapter.compactions, "compaction"),
  ...[...chapter.checks].map(([name, passed]) => h("span", { class: passed ? "passed" : "failed" }, `${passed ? "\u2713" : "\u2717"} ${name}`)),
].filter(Boolean);

const joined = (parts) => parts.map((part, at) => [at > 0 && " \u00b7 ", part]);

function rowOf(row, top) {
  const turn = turns[row.turn];
  const selected = row.turn === here.turn && !(row.chapter && row.chapter.number === undefined);
  const same = { href: hashOf(here.branch, row.turn), id: `row-${row.chapter ? "c" : ""}${row.turn}`, tabindex: -1, role: "treeitem", "aria-selected": String(selected), "aria-setsize": row.of, "aria-posinset": row.at + 1, "data-turn": row.turn };
  const node = row.chapter
    ? h("a", { ...same, class: `chapter ${color(branches[owner[row.turn]])}`, "aria-level": 1, "aria-expanded": row.steps ? String(row.isOpen) : null },
      h("b", {}, row.chapter.number === undefined ? "\u2013" : row.chapter.number),
      h("span", { class: "title" }, row.chapter.number === undefined ? "before the first prompt" : titleOf(turn, 200)),
      h("time", {}, row.isNewDay && `${dayOf(turn.at).slice(5)} `, clockTime(turn.at)),
      h("small", {}, joined(chapterFacts(row.chapter))))
    : h("a", { ...same, class: `row-step ${kindOf(turn)}${turn.change ? "" : " expired"}`, "aria-level": 2 }, h("span", { class: "title" }, titleOf(turn, 160)), h("small", {}, since(here.branch, row.turn)));
  node.style.top = `${top}px`;
  return node;
}

/** Opens the chapter of a turn and brings its row into sight. */
function revealRow(turn) {
  const chapters = chaptersOf(here.branch);
  const place = here.branch.places.get(turn);
  const chapter = chapters.findLast((one) => here.branch.places.get(one.turn) <= place) || chapters[0];
  const key = `${here.branch.index}/${outline.kind}/${chapter.turn}`;
  if (outline.key !== key) {
    outline.key = key;
    outline.opened.clear();
    outline.opened.add(chapter.turn);
    layOutline(here.branch);
  }
  let at = outline.rows.findIndex((row) => row.turn === turn && !(row.chapter && row.chapter.number === undefined));
  if (at < 0) at = Math.max(0, outline.rows.findIndex((row) => row.chapter === chapter));
  const [top, bottom] = [outline.tops[at], outline.tops[at + 1]];
  if (top < list.scrollTop + CHAPTER) list.scrollTop = top - CHAPTER;
  else if (bottom > list.scrollTop + list.clientHeight - STEP) list.scrollTop = bottom - list.clientHeight + 2 * STEP;
}

/** Opens or closes the chapter that is looked at. */
function toggleChapter(open) {
  const row = outline.rows.findLast((one) => one.chapter && here.branch.places.get(one.turn) <= here.branch.places.get(here.turn));
  if (!row) return;
  if (open) outline.opened.add(row.turn);
  else outline.opened.delete(row.turn);
  layOutline(here.branch);
  drawOutline();
}

/** Shows all prompts, and no steps. */
function foldOutline() {
  outline.key = "";
  outline.opened.clear();
  layOutline(here.branch);
  list.scrollTop = 0;
  drawOutline();
}

/** The buttons that filter by kind. */
function drawKinds() {
  const button = (/** @type {any[]} */ [name, label]) => {
    const number = storyOf(here.branch).kinds.get(name).length;
    return number > 0 && h("button", { type: "button", class: "chip", "aria-pressed": String(outline.kind === name), on: { click: () => chooseKind(name) } }, label, h("small", {}, number));
  };
  byId("kinds").replaceChildren(...KINDS.map(button).filter(Boolean));
}

function drawBranches() {
  const pick = h("select", { "aria-label": "Branch" }, branches.map((branch) => h("option", { value: branch.index, selected: branch === here.branch }, `${branch.name} (${branch.line.length})${header.branches[branch.index].conflicts ? `, ${plural(header.branches[branch.index].conflicts, "conflict")}` : ""}`)));
  pick.addEventListener("change", () => openTurn(branches[Number(pick.value)], branches[Number(pick.value)].line.at(-1)));
  byId("branches").replaceChildren(...(branches.length > 1 ? [pick] : []));
}

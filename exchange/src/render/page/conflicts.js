// Open conflicts of a branch: the versions of each, and a decision.

const VERSIONS = [["ours", "Take ours"], ["theirs", "Take theirs"], ["base", "Take what was before"], ["current", "Leave as it stands"]];

screens.conflicts = (rest) => {
  const branch = branchNamed(rest || undefined) || here.branch;
  move(endOf(branch));
  const head = h("header", { class: "view-head" }, h("h2", {}, "Conflicts"), h("p", { class: "facts" }, `Both sides changed these on ${branch.name}.`));
  return pageOf("Conflicts", head, async () => {
    const found = await askJson(`/api/conflicts?branch=${encodeURIComponent(fullName(branch))}`);
    if (!found.conflicts.length) return h("p", { class: "quiet" }, "No conflict is open.");
    const decide = (paths, given, back = null) => screens.plan({ kind: "resolve", branch: fullName(branch), paths, ...given }, back);
    const all = found.conflicts.map((conflict) => conflict.path);
    const forAll = allowsChanges() && all.length > 1 && h("p", { class: "doors" }, h("small", {}, "All: "), VERSIONS.slice(0, 2).map(([take, label]) => sheetButton(label, () => decide(all, { take }), { class: "copy" })));
    return [forAll, found.conflicts.map((conflict) => conflictBlock(conflict, found.writers[conflict.path] ?? [], (given, back) => decide([conflict.path], given, back)))];
  });
};

/** A version of what is in conflict: its text; nothing where that side has none. */
const versionOf = (/** @type {string | null} */ blob) => (blob === null ? "" : textAt(numberOf("x", blob)));

/** The prompt that a side was written for, and the turn that wrote it. */
function writerLine(/** @type {string | null | undefined} */ id) {
  const turn = id ? numbers.t.get(id) : undefined;
  const branch = turn === undefined ? undefined : branches[owner[turn]];
  if (!branch) return false;
  const place = branch.places.get(turn);
  const asked = chaptersOf(branch).findLast((one) => branch.places.get(one.turn) <= place);
  const link = (at, name) => h("a", { href: hashOf(branch, at) }, name);
  return h("p", { class: "writer" }, asked?.number !== undefined && [link(asked.turn, `Prompt ${asked.number}: ${titleOf(turns[asked.turn], 160)}`), " "],
    h("small", {}, asked?.turn !== turn && link(turn, `turn ${turns[turn].turn}`), ` on ${branch.name}`));
}

/** The lines of a text that differ in one of the others, with some around, as the others show them. */
function stretchRows(text, others) {
  const found = others.flatMap((other) => compareTexts(text, other).stretches).sort((one, next) => one[0] - next[0]);
  const lines = linesOf(text);
  const rows = [];
  let shown = 0;
  const rest = (until) => until > shown && rows.push(h("div", { class: "gap" }, `${plural(until - shown, "line")} the same`));
  for (const [from, to] of found) {
    rest(Math.max(shown, from - AROUND));
    for (shown = Math.max(shown, from - AROUND); shown < Math.min(lines.length, to + AROUND); shown += 1) {
      rows.push(h("div", { class: `row one${found.some(([a, z]) => shown >= a && shown < z) ? " hot" : ""}` }, h("i", {}, shown + 1), h("code", {}, bare(lines[shown]) || " ")));
    }
  }
  rest(lines.length);
  return rows;
}

function conflictBlock(conflict, writers, decide) {
  const body = () => {
    const [base, ours, theirs] = [conflict.base, conflict.ours, conflict.theirs].map(versionOf);
    const isText = [base, ours, theirs].every((side) => typeof side === "string");
    const side = (name, rows, writer = /** @type {any} */ (false)) => h("div", {}, h("h4", {}, name), writer, h("div", { class: "file" }, rows));
    // What each side did to what was there before, and that where one of them changed it.
    const columns = () => [side("Base", rowsBlock(stretchRows(base, [ours, theirs])), h("p", { class: "quiet" }, conflict.base === null ? "Neither side had it before." : "Before both sides changed it.")),
      ...[["Ours", ours], ["Theirs", theirs]].map(([name, words], at) => side(name, diffBlock(compareTexts(base, words)), writerLine(writers[at])))];
    return [isText ? h("div", { class: "beside three" }, columns()) : [ours, theirs].map((side, at) => [writerLine(writers[at]), typeof side === "object" && unshown(side)]),
      allowsChanges() && h("p", { class: "doors" }, VERSIONS.filter(([take]) => take !== "base" || conflict.base !== null).map(([take, label]) => sheetButton(label, () => decide({ take }), { class: "copy" })),
        isText && sheetButton("Write\u2026", () => write(ours), { class: "copy" }))];
  };
  const write = (/** @type {string} */ words) => {
    const area = h("textarea", { rows: 14, "aria-label": conflict.path, spellcheck: "false" });
    area.value = words;
    openSheet(conflict.path, area, h("p", { class: "acts" }, sheetButton("Look at the plan", () => decide({ content: area.value }, () => write(area.value)), { class: "main" }), cancel()));
  };
  const sides = [["ours", conflict.ours], ["theirs", conflict.theirs]].filter(([, blob]) => blob === null).map(([name]) => `gone in ${name}`);
  const block = fold({ class: "file", "data-path": conflict.path }, [h("span", { class: "path" }, conflict.path), h("small", {}, [conflict.kind, ...sides].join(", "))], body);
  block.open = true;
  return block;
}

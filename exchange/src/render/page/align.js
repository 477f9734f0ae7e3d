// The branches step by step: where they part, where their files are equal again, and the step that decides.

/** The interval in which the page looks whether branches have grown. */
const ALIGN_MS = 3000;

const ROW_PX = 26;

/** The least width of the line of a run that has ended where others go on. */
const STUB_X = 12;

const FIRST_X = 16;

/** The least and the largest width between two places where something happens. */
const LEAST_APART = 40;
const MOST_APART = 130;

/** The most characters of a call in the picture. */
const CALL = 26;

screens.align = () => {
  const box = h("div", {});
  let tips = "";
  const draw = async () => {
    const now = branches.map((branch) => turns[branch.line.at(-1)].id).join();
    if (document.hidden || now === tips) return;
    tips = now;
    const told = await (await ask(`/api/compare?align=1&session=${encodeURIComponent(nameOfSession())}`)).json();
    if (box.isConnected) box.replaceChildren(...alignedParts(told));
  };
  const look = () => draw().catch((error) => sayState(error.message));
  const looks = setInterval(() => (box.isConnected ? look() : clearInterval(looks)), ALIGN_MS);
  look();
  return h("article", { class: "page", "aria-label": "Alignment" }, h("header", { class: "view-head" }, h("h2", {}, "Alignment")), box);
};

const stepNumbered = (/** @type {number} */ step) => `step ${step}`;

/** What some runs did at a step. */
const labelOf = (choice, without) => choice.label ?? without;

function alignedParts({ strategies, alignment }) {
  const { splits, decision } = alignment;
  const shared = plural(alignment.shared_steps, "step");
  const common = splits.length ? `${shared} in common` : `${shared} of each branch, all alike`;
  const decides = decision && `${stepNumbered(decision.step)} separates passed from failed${decision.separates ? "" : " best"}`;
  const runs = runsOf(strategies, alignment);
  if (runs.length < 2) return [h("p", { class: "quiet" }, "There are no two branches with steps to align.")];
  return [
    h("p", { class: "facts" }, [plural(runs.length, "branch", "branches"), common, decides].filter(Boolean).join(" \u00b7 ")),
    pictureOf(runs, alignment),
    decision && part("The step that decides", decides, choicesTable("The step that decides", [decision], runs, "without it")),
    splits.length > 0 && part("Where they part", "", choicesTable("Where they part", splits, runs, "no further step")),
    part("Where they meet", "branches with the same files after they parted", runsTable(runs)),
  ].filter(Boolean);
}

/** The runs in the order of the tree, each with its branch, its outcome, and its first meeting with an earlier one. */
function runsOf(strategies, { splits, pairs, steps }) {
  const runs = new Map(strategies.map((strategy, at) => {
    const results = Object.values(strategy.checks);
    const passed = results.length ? results.every(Boolean) : null;
    return [strategy.name, { name: strategy.name, strategy, branch: branchOf(strategy), steps: steps[at], passed, parted: null, met: null, row: 0, end: 0 }];
  }));
  // The branch that the others were forked from takes no part.
  const taking = new Set(pairs.flatMap((pair) => pair.runs));
  const order = /** @type {string[]} */ ([]);
  const visit = (names, parent) => {
    const at = splits.findIndex((split) => split.parent === parent && split.choices.some((choice) => names.includes(choice.runs[0])));
    if (at < 0) return order.push(...names);
    for (const choice of splits[at].choices) visit(choice.runs, at);
  };
  visit([...runs.keys()].filter((name) => taking.has(name)), null);
  order.forEach((name, row) => { runs.get(name).row = row; });
  for (const { runs: [a, b], parted, met } of pairs) {
    const [one, other] = [runs.get(a), runs.get(b)];
    for (const run of [one, other]) run.parted = parted === null ? run.parted : Math.max(run.parted ?? 0, parted);
    if (!met) continue;
    for (const [run, to, mine, theirs] of [[one, other, 0, 1], [other, one, 1, 0]]) {
      if (run.met && run.met.steps <= met.steps[mine]) continue;
      run.met = { to, steps: met.steps[mine], turn: met.turns[mine], theirSteps: met.steps[theirs], theirTurn: met.turns[theirs] };
    }
  }
  return order.map((name) => runs.get(name));
}

/** Where a link to a turn of a run leads. */
const addressIn = ({ branch }, turn) => branch && hashOf(branch, turn ? turnNumbered(branch, turn) : branch.line.at(-1));

const runLink = (run, turn, ...words) => (addressIn(run, turn) ? h("a", { href: addressIn(run, turn) }, words) : h("span", {}, words));

const endWords = ({ passed }) => (passed === null ? "\u2013" : passed ? "\u2713 passed" : "\u2717 failed");

const alignmentTable = (name, head, rows) => h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": name }, h("table", { class: "compare" }, h("thead", {}, h("tr", {}, head.map((word) => h("th", { scope: "col" }, word)))), h("tbody", {}, rows)));

function choicesTable(name, places, runs, without) {
  const named = new Map(runs.map((run) => [run.name, run]));
  const rows = places.flatMap((place) => place.choices.map((choice) => {
    const [first, ...others] = choice.runs.map((run) => named.get(run));
    const by = place.by === "result" ? " (its result)" : "";
    return h("tr", { class: first.branch && color(first.branch) },
      h("th", { scope: "row" }, `${stepNumbered(place.step)}${by}`),
      h("td", { class: "step", title: choice.label }, runLink(first, choice.turn, labelOf(choice, without))),
      h("td", { class: "step" }, [first, ...others].map((run, at) => [at > 0 && ", ", runLink(run, null, run.name)])),
      h("td", { class: choice.passed ? "passed" : "" }, choice.passed), h("td", { class: choice.failed ? "failed" : "" }, choice.failed));
  }));
  return alignmentTable(name, ["step", "what was done", "branches", "passed", "failed"], rows);
}

function runsTable(runs) {
  const rows = runs.map((run) => {
    const { met, passed } = run;
    return h("tr", { class: run.branch && color(run.branch) },
      h("th", { scope: "row" }, runLink(run, null, run.name)), h("td", { class: passed === null ? "" : passed ? "passed" : "failed" }, endWords(run)), h("td", {}, run.steps), h("td", {}, run.parted ?? "\u2013"),
      h("td", { class: "step" }, met ? [runLink(run, met.turn, `turn ${met.turn}`), " as ", runLink(met.to, met.theirTurn, `${met.to.name}, turn ${met.theirTurn}`)] : "\u2013"));
  });
  return alignmentTable("Branches", ["branch", "outcome", "steps", "alone from step", "same files"], rows);
}

/** The picture: a row for each branch, and a column for each step at which something happens. */
function pictureOf(runs, { splits, decision }) {
  // A result follows its call.
  const placeOfSplit = ({ step, by }) => step + (by === "result" ? 0.5 : 0);
  const meetings = runs.filter(({ row, met }) => met && !(met.to.row < row && met.to.met.to.row === row));
  const places = [1, ...splits.map(placeOfSplit), ...runs.map((run) => run.steps + 1), ...meetings.flatMap(({ met }) => [met.steps + 1, met.theirSteps + 1]), decision?.step ?? 1];
  const columns = [...new Set(places)].sort((a, b) => a - b);
  const names = Math.min(200, Math.max(...runs.map((run) => cutAt(run.name, 26).length)) * 7.2 + 40);
  const apart = Math.min(MOST_APART, Math.max(LEAST_APART, (view.clientWidth - 100 - names) / Math.max(1, columns.length - 1)));
  const x = (place) => FIRST_X + columns.indexOf(place) * apart;
  const y = (row) => 34 + row * ROW_PX;
  const [width, height] = [FIRST_X + (columns.length - 1) * apart + names, y(runs.length - 1) + 18];
  const named = new Map(runs.map((run) => [run.name, run]));
  const middle = (names) => names.reduce((sum, name) => sum + y(named.get(name).row), 0) / names.length;
  const line = (d, ...parts) => s("path", { class: "line", d }, parts);
  const bend = (fromX, fromY, toX, toY) => {
    const knee = Math.min(toX, fromX + Math.min(24, apart * 0.6));
    return `M${fromX} ${fromY}C${knee} ${fromY} ${fromX} ${toY} ${knee} ${toY}H${toX}`;
  };
  const parts = [];
  /** Draws runs that are alike from a place on, until they part or end. */
  const draw = (names, [fromX, fromY], parent) => {
    const at = splits.findIndex((split) => split.parent === parent && split.choices.some((choice) => names.includes(choice.runs[0])));
    const lane = (name) => (named.get(name).branch ? color(named.get(name).branch) : "");
    if (at < 0) {
      for (const name of names) {
        const run = named.get(name);
        run.end = Math.max(x(run.steps + 1), fromX + STUB_X);
        parts.push(s("g", { class: `lane ${lane(name)}` }, line(bend(fromX, fromY, run.end, y(run.row)))));
      }
      return;
    }
    const split = splits[at];
    const [toX, toY] = [x(placeOfSplit(split)), middle(names)];
    const group = s("g", { class: `lane ${lane(names[0])}` }, line(bend(fromX, fromY, toX, toY)));
    parts.push(group);
    for (const choice of split.choices) draw(choice.runs, [toX, toY], at);
    const told = split.choices.map((choice) => `${cutAt(labelOf(choice, "no further step"), CALL)}: ${choice.runs.length}`).join("; ");
    parts.push(s("g", { class: `lane ${lane(names[0])}` }, s("circle", { class: "fork", cx: toX, cy: toY, r: 4.5 }, s("title", {}, `${stepNumbered(split.step)}: ${told}`))));
  };
  draw(runs.map((run) => run.name), [FIRST_X, middle(runs.map((run) => run.name))], null);
  const marks = meetings.map(({ row, branch, met }) => s("g", { class: `lane ${branch ? color(branch) : ""}` },
    s("path", { class: "joined", d: `M${x(met.steps + 1)} ${y(row)}L${x(met.theirSteps + 1)} ${y(met.to.row)}` }),
    [[met.steps, row], [met.theirSteps, met.to.row]].map(([steps, at]) => s("circle", { class: "event met", cx: x(steps + 1), cy: y(at), r: 3.4 }, s("title", {}, `the same files as ${met.to.name}`)))));
  const ends = runs.map((run) => {
    const outcome = run.passed === null ? "" : run.passed ? " passed" : " failed";
    const at = run.end;
    const href = addressIn(run, null);
    const words = s("text", { x: at + 11, y: y(run.row) + 4 }, `${cutAt(run.name, 26)}${run.passed === null ? "" : run.passed ? " \u2713" : " \u2717"}`);
    return s("g", { class: `lane ${run.branch ? color(run.branch) : ""}` }, s("circle", { class: `tip${outcome}`, cx: at, cy: y(run.row), r: 4 }), href ? s("a", { href, tabindex: -1 }, words) : words);
  });
  const shown = decision ? x(decision.step) : 0;
  const decides = decision && s("g", { class: "decides" }, s("path", { d: `M${shown} 20V${height}` }), s("text", { x: shown, y: 14 }, stepNumbered(decision.step)));
  const picture = s("svg", { class: "aligned", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, decides, parts, marks, ends);
  return h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Picture of the steps; the tables say the same" }, picture);
}

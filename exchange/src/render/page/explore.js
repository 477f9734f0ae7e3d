// An exploration while it runs: its strategies with their states, and how they ended.

/** The interval in which times are shown anew, and the end of a process that was killed is noticed. */
const LOOK_MS = 3000;

const STATES = { running: "runs", checking: "checks", passed: "\u2713 passed", failed: "\u2717 failed", interrupted: "interrupted", waiting: "waits" };

/** Why a command ended that did not end by itself. */
const ENDS = { signal: "ended by a signal", timeout: "timed out", budget: "ended by the budget", "not-started": "not started" };

/** The exploration that is shown, and its rows by branch and round. */
const shownExploration = { name: "", key: "", box: /** @type {any} */ (null), rows: new Map(), looks: 0 };

/** The exploration that the address names, or the newest. */
const explorationNamed = (/** @type {string} */ name) => header.explorations?.find((one) => one.name === name) ?? header.explorations?.[0];

screens.explore = (rest) => {
  const box = h("div", {});
  Object.assign(shownExploration, { name: decoded(rest) ?? rest, key: "", box, rows: new Map() });
  if (!header.explorations) readExplorations().catch((error) => sayState(error.message));
  // Every strategy has its line in the picture.
  map.whole = true;
  drawMap();
  drawExploration();
  clearInterval(shownExploration.looks);
  shownExploration.looks = setInterval(() => {
    if (!box.isConnected) return clearInterval(shownExploration.looks);
    if (!document.hidden && explorationNamed(shownExploration.name)?.state === "running") readExplorations().catch(() => {});
  }, LOOK_MS);
  return h("article", { class: "page", "aria-label": "Exploration" }, box);
};

/** Draws what has changed: rows stay where they are, and so does the focus. */
screens.explored = () => shownExploration.box?.isConnected && drawExploration();

function drawExploration() {
  const { box, rows } = shownExploration;
  const one = explorationNamed(shownExploration.name);
  if (!one) return void box.replaceChildren(h("header", { class: "view-head" }, h("h2", {}, "Exploration")), h("p", { class: "quiet" }, header.explorations ? "This session has no exploration." : "\u2026"));
  const key = JSON.stringify([one.name, header.explorations.length]);
  if (shownExploration.key !== key) {
    rows.clear();
    shownExploration.key = key;
    const head = ["strategy", "state", one.rounds > 1 && "round", "score", "tokens", "cost", "time", "last step"].filter(Boolean);
    box.replaceChildren(
      h("header", { class: "view-head" }, h("h2", {}, `Exploration ${one.name}`), h("p", { class: "facts" })),
      h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Strategies" }, h("table", { class: "compare" }, h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}))),
      h("p", { class: "links" }));
  }
  const focused = [...rows].find(([, { row }]) => row.contains(document.activeElement))?.[0];
  box.querySelector(".facts").textContent = factsOf(one);
  const order = Object.keys(STATES);
  const place = new Map(one.ranked.map((name, at) => [name, at]));
  const rank = (trial) => (trial.state === "running" || trial.state === "checking" ? -1 : place.get(trial.branch) ?? one.trials.length + order.indexOf(trial.state));
  const ordered = one.trials.toSorted((a, b) => rank(a) - rank(b) || b.round - a.round);
  box.querySelector("tbody").replaceChildren(...ordered.map((trial) => rowOfTrial(one, trial)));
  fill(empty(box.querySelector(".links")), {}, linksOf(one));
  // The row may be a new one: its link goes to the newest turn.
  if (focused) rows.get(focused)?.row.querySelector("a")?.focus({ preventScroll: true });
}

function factsOf({ trials, state, search, rounds, round, tokens, cost_usd: cost }) {
  const number = (name) => trials.filter((trial) => trial.state === name).length;
  const states = Object.entries(STATES).map(([name, word]) => number(name) && `${number(name)} ${word.replace(/^\W /, "")}`);
  return [state, rounds > 1 && `${search}, round ${round} of ${rounds}`, ...states, tokens !== null && `${short(tokens)} tokens`, cost > 0 && dollars(cost)].filter(Boolean).join(" \u00b7 ");
}

/** The row of a trial: the one that is there, unless something of it has changed. */
function rowOfTrial(one, trial) {
  const branch = branches.find((other) => other.name === trial.branch);
  const name = `${trial.branch} ${trial.round}`;
  const isBest = one.best === trial.branch && trial.state === "passed";
  const key = JSON.stringify([trial, isBest, branch?.index, branch?.line.at(-1)]);
  const old = shownExploration.rows.get(name);
  if (old?.key === key) return old.row;
  const end = ENDS[trial.end] ?? (trial.exit > 0 && `exit code ${trial.exit}`);
  const cell = (value, attributes = {}) => h("td", attributes, value ?? "\u2013");
  const row = h("tr", { class: branch && color(branch) },
    h("th", { scope: "row" }, branch ? h("a", { href: hashOf(branch, branch.line.at(-1)) }, trial.branch) : trial.branch, isBest && h("span", { class: "best" }, " best")),
    cell([STATES[trial.state], end && h("small", {}, ` ${end}`)], { class: trial.state === "waiting" ? "quiet" : trial.state }),
    one.rounds > 1 && cell(trial.round), cell(trial.score), cell(trial.tokens === null ? null : short(trial.tokens)), cell(trial.cost_usd === null ? null : dollars(trial.cost_usd)),
    cell(trial.elapsed_ms === null ? null : duration(trial.elapsed_ms)), cell(trial.step && firstLine(trial.step.message, 80), { class: "step", title: trial.step && `turn ${trial.step.turn}, ${trial.step.time}` }));
  shownExploration.rows.set(name, { key, row });
  return row;
}

function linksOf(one) {
  const others = header.explorations.filter((other) => other !== one);
  const words = { over: one.best ? `turntree explore keep ${shellWord(one.name)}` : "", interrupted: `turntree explore continue ${shellWord(one.name)}` }[one.state];
  return [branches.length > 1 && [h("a", { class: "button", href: "#compare" }, "Compare the branches"), " ", h("a", { class: "button", href: "#align" }, "Align the branches")], words && [" ", h("code", {}, words)],
    others.map((other) => [" ", h("a", { class: "button", href: `#explore=${encodeURIComponent(other.name)}` }, other.name)])];
}

// Strategies side by side, as `compare` counts them: outcomes first, sorted by any column.

const sorting = { column: /** @type {string | null} */ (null), down: true };

/**
 * Columns of numbers: name, value, how it is shown, whether less is better.
 * @type {[string, (strategy: any) => any, ((value: number) => string) | null, boolean | null][]}
 */
const COLUMNS = [
  ["turns", (x) => x.turns, null, null], ["messages", (x) => x.messages, null, null], ["tools", (x) => x.tool_calls, null, null], ["errors", (x) => x.tool_errors, null, true],
  ["tokens", (x) => (x.tokens ? x.tokens.input + x.tokens.output : null), short, true], ["cost", (x) => x.usage?.cost_usd ?? null, dollars, true],
  ["files", (x) => x.files_changed, null, null], ["added", (x) => x.lines_added, null, null], ["removed", (x) => x.lines_removed, null, null], ["time", (x) => x.elapsed_ms, duration, true],
];

const branchOf = (strategy) => {
  const same = branches.filter((branch) => turns[branch.line.at(-1)].id === strategy.id);
  return same.find((branch) => branch.name === strategy.name) || same[0];
};

function compareView() {
  const compared = header.compare;
  if (!compared) return h("article", { class: "page" }, h("h2", {}, "Strategies"), h("p", { class: "quiet" }, branches.length > 1 && HOME ? "\u2026" : "There is one branch only."));
  const checks = [...new Set(compared.strategies.flatMap((strategy) => Object.keys(strategy.checks)))].sort();
  const box = h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Strategies" });
  let ticked = /** @type {Branch[]} */ ([]);
  const links = h("p", { class: "links", role: "status" });
  const draw = () => {
    ticked = [];
    box.replaceChildren(table(compared.strategies, checks, draw));
    drawLinks();
  };
  const since = compared.fork ? `Since the fork at turn ${compared.fork.turn}.` : "No common snapshot: counted from the first turn.";
  const left = compared.branches > compared.strategies.length ? ` The newest ${compared.strategies.length} of ${compared.branches} branches.` : "";
  const [first, ...others] = branches;
  const link = (from, to) => h("a", { class: "button", href: diffHash(endOf(from), endOf(to)) }, `${from.name} \u2192 ${to.name}`);
  const drawLinks = () => {
    const [a, b] = ticked;
    fill(empty(links), {}, b ? [link(a, b), mergeOffer(a), mergeOffer(b)] : a ? [others.concat(first).filter((other) => other !== a).map((other) => link(other, a)), mergeOffer(a)] : others.map((other) => link(first, other)));
  };
  // The two that were ticked last.
  box.addEventListener("change", ({ target }) => {
    const branch = branches[Number(target.value)];
    ticked = target.checked ? [...ticked, branch].slice(-2) : ticked.filter((one) => one !== branch);
    for (const tick of box.querySelectorAll("input")) tick.checked = ticked.includes(branches[Number(tick.value)]);
    drawLinks();
  });
  draw();
  return h("article", { class: "page", "aria-label": "Strategies" }, h("header", { class: "view-head" }, h("h2", {}, "Strategies"), h("p", { class: "facts" }, since + left, HOME && [" ", h("a", { href: "#align" }, "Align them step by step")])), box,
    others.length > 0 && part("Differences of the last turns", "tick two strategies for theirs", links));
}

function table(strategies, checks, draw) {
  const found = COLUMNS.find(([name]) => name === sorting.column);
  const value = found ? found[1] : (x) => x.checks[sorting.column];
  const ordered = [...strategies];
  if (sorting.column) ordered.sort((a, b) => (Number(value(b) ?? -1) - Number(value(a) ?? -1)) * (sorting.down ? 1 : -1));
  const head = (name) => h("th", { scope: "col", "aria-sort": sorting.column === name ? (sorting.down ? "descending" : "ascending") : null },
    h("button", { type: "button", on: { click: () => {
      sorting.down = sorting.column === name ? !sorting.down : true;
      sorting.column = name;
      draw();
    } } }, name, sorting.column === name && (sorting.down ? " \u2193" : " \u2191")));
  const ranks = new Map(COLUMNS.map(([name, of, , less]) => {
    const numbers = strategies.map(of).filter((number) => number !== null);
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    return [name, less === null || low === high || numbers.length < 2 ? { high } : { high, best: less ? low : high, worst: less ? high : low }];
  }));
  const cell = (strategy, /** @type {any[]} */ [name, of, show]) => {
    const number = of(strategy);
    if (number === null) return h("td", {}, "\u2013");
    const rank = ranks.get(name);
    const mark = number === rank.best ? "best" : number === rank.worst ? "worst" : null;
    return h("td", { class: mark, title: mark }, h("span", { class: "fill", "width%": rank.high ? (76 * number) / rank.high : 0 }), h("span", {}, (show || ((n) => n.toLocaleString("en")))(number)));
  };
  const outcome = (result) => h("td", { class: result === true ? "passed" : result === false ? "failed" : "" }, result === true ? "\u2713 passed" : result === false ? "\u2717 failed" : "\u2013");
  const row = (strategy) => {
    const branch = branchOf(strategy);
    const last = branch && turns[branch.line.at(-1)];
    return h("tr", { class: branch && color(branch) }, h("th", { scope: "row" }, branch && h("input", { type: "checkbox", value: branch.index, "aria-label": `Choose ${branch.name}` }), branch ? h("a", { href: hashOf(branch, branch.line.at(-1)) }, strategy.name) : strategy.name, branch && conflictsOf(branch), last && h("small", {}, titleOf(last, 60))),
      checks.map((name) => outcome(strategy.checks[name])), COLUMNS.map((column) => cell(strategy, column)));
  };
  return h("table", { class: "compare" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "strategy"), checks.map(head), COLUMNS.map(([name]) => head(name)))), h("tbody", {}, ordered.map(row)));
}

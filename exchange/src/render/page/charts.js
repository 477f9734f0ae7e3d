// Charts of a branch: how its context grew, which prompts changed which files, agents on a clock, time by tool.

/** Most columns, files and agents of a chart, and its height. */
const MOST_COLUMNS = 240;
const MOST_FILES = 20;
const MOST_AGENTS = 40;
const GROWTH = 130;

/** Room for names at the left of a chart. */
const NAMES_WIDTH = 190;

const inWords = (/** @type {any[]} */ facts) => facts.filter(Boolean).join(" \u00b7 ");

const chartWidth = () => Math.max(280, Math.min(1040, view.clientWidth - 20));

/** A picture with its name. The table below it has the same facts. */
const chart = (width, height, name, ...children) => s("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name }, children);

/** A table of numbers, folded. */
const tableOf = (name, heads, rows) => fold({ class: "file" }, ["As a table"], () => lazily(rows, (some) => numberTable(name, heads, some)));

/** A table with a heading for each column and each line. */
const numberTable = (name, columns, lines) => h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": name }, h("table", { class: "compare" },
  h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col" }, column)))),
  h("tbody", {}, lines.map(([first, ...cells]) => h("tr", {}, h("th", { scope: "row" }, first || "\u2013"), cells.map((cell) => h("td", {}, cell)))))));

/** A place of a chart that leads to what it shows. */
const chartLink = (href, words, ...shapes) => s("a", { href, "aria-label": words }, s("title", {}, words), shapes);

/** Puts neighbours together until there are at most so many columns. */
function columnsOf(items, most) {
  const each = Math.ceil(items.length / most) || 1;
  return Array.from({ length: Math.ceil(items.length / each) }, (_, at) => items.slice(at * each, (at + 1) * each));
}

/** The context in front of the model, turn by turn, with compactions, and how much of the input a cache gave. */
function growthPart(branch) {
  const told = branch.line.filter((turn) => turns[turn].context || turns[turn].trigger === "compaction");
  if (told.filter((turn) => turns[turn].context).length < 2) return null;
  const width = chartWidth();
  const columns = columnsOf(told, MOST_COLUMNS).map((some) => {
    const sum = sumOf(some);
    return { some, context: Math.max(...some.map((turn) => turns[turn].context || 0)), compactions: sum.compactions, cached: sum.read > 0 ? sum.cached / sum.read : null };
  });
  const most = Math.max(...columns.map((column) => column.context));
  const room = width / columns.length;
  const y = (share) => GROWTH - 4 - share * (GROWTH - 24);
  let last = 0;
  const heights = columns.map((column) => (last = column.context || last));
  const area = `M0 ${y(0)}${heights.map((context, at) => `L${at * room} ${y(context / most)}H${(at + 1) * room}`).join("")}V${y(0)}Z`;
  let pen = "M";
  const cached = columns.map(({ cached: share }, at) => {
    if (share === null) return "";
    const point = `${pen}${(at + 0.5) * room} ${y(share)}`;
    pen = "L";
    return point;
  }).join("");
  const name = (column) => inWords([`turn ${turns[column.some[0]].turn}${column.some.length > 1 ? `\u2013${turns[column.some.at(-1)].turn}` : ""}`, column.context > 0 && `${short(column.context)} tokens of context`, column.cached !== null && `${Math.round(100 * column.cached)} % of the input from a cache`, column.compactions > 0 && plural(column.compactions, "compaction")]);
  const columnLink = (column, at) => chartLink(hashOf(branch, column.some[0]), name(column), s("rect", { class: "touch", x: at * room, y: 0, width: room, height: GROWTH }),
    column.compactions > 0 && s("path", { class: "bars turned", "stroke-width": 2, d: `M${(at + 0.5) * room} 14V${y(0)}` }));
  const compactions = storyOf(branch).sum.compactions;
  return part("Context", inWords([`at most ${short(most)} tokens`, compactions > 0 && plural(compactions, "compaction")]),
    chart(width, GROWTH, `The context of ${plural(told.length, "turn")}, at most ${short(most)} tokens`, s("path", { class: "grid", d: `M0 ${y(1)}H${width}M0 ${y(0.5)}H${width}` }), s("path", { class: "area", d: area }), cached && s("path", { class: "share", d: cached }),
      s("text", { x: width, y: 13, class: "end" }, short(most)), columns.map(columnLink)),
    cached && h("p", { class: "quiet" }, "Area: tokens in front of the model. Line: the part of the input that a cache gave, up to 100 %."),
    tableOf("Context", ["turn", "context", "from a cache", "compactions"], columns.map((column) => [h("a", { href: hashOf(branch, column.some[0]) }, turns[column.some[0]].turn), short(column.context), column.cached === null ? "\u2013" : `${Math.round(100 * column.cached)} %`, column.compactions || ""])));
}

/** Which prompt changed how many lines of which file: each square leads to that difference. */
function heatPart(branch) {
  const { sum, chapters } = storyOf(branch);
  const lines = ([, [added, removed]]) => added + removed;
  const paths = [...sum.files].sort((a, b) => lines(b) - lines(a)).slice(0, MOST_FILES).map(([path]) => path);
  const asked = chapters.filter((chapter) => chapter.files.size > 0);
  if (asked.length < 2 || !paths.length) return null;
  const width = chartWidth();
  const names = Math.min(NAMES_WIDTH, width * 0.4);
  const columns = columnsOf(asked, Math.floor((width - names) / 9));
  const room = Math.min(26, (width - names) / columns.length);
  const squares = [];
  columns.forEach((some, at) => {
    const found = sumOf(some.flatMap((chapter) => chapter.turns)).files;
    paths.forEach((path, row) => {
      if (!found.has(path)) return;
      const [added, removed] = found.get(path);
      const [first, last] = [some[0].turn, some.at(-1).turns.at(-1)];
      const before = branch.line[Math.max(0, branch.places.get(first) - 1)];
      const prompts = some[0].number === undefined ? "the beginning" : `prompt ${some[0].number}${some.length > 1 ? `\u2013${some.at(-1).number}` : ""}`;
      squares.push({ path, row, at, added, removed, prompts, href: `${diffHash({ branch, turn: before }, { branch, turn: last })}:${encodeURIComponent(path)}` });
    });
  });
  const most = Math.log1p(Math.max(...squares.map((square) => square.added + square.removed)));
  const short = (path) => (path.length * 6.6 > names - 8 ? `\u2026${path.slice(-Math.floor((names - 16) / 6.6))}` : path);
  const square = ({ path, row, at, added, removed, prompts, href }) => chartLink(href, `${path}, ${prompts}: +${added} \u2212${removed}`,
    s("rect", { x: names + at * room, y: row * 17 + 1, width: room - 1.5, height: 15, rx: 2, "fill-opacity": (0.18 + (0.82 * Math.log1p(added + removed)) / (most || 1)).toFixed(2) }));
  return part("Files by prompt", inWords([sum.files.size > paths.length ? `the ${paths.length} with most changed lines of ${sum.files.size}` : plural(paths.length, "file"), plural(asked.length, "prompt")]),
    chart(names + columns.length * room, paths.length * 17, `Lines of ${plural(paths.length, "file")} that ${plural(asked.length, "prompt")} changed`, paths.map((path, row) => s("text", { class: "end", x: names - 8, y: row * 17 + 13 }, s("title", {}, path), short(path))), squares.map(square)),
    tableOf("Files by prompt", ["file", "prompt", "lines"], squares.map((one) => [h("a", { href: one.href }, one.path), one.prompts, lineCounts(one.added, one.removed)])));
}

/** Other agents of a branch, each from the turn that began it to its last message. */
function agentsOnClock(branch) {
  const found = new Map();
  branch.line.forEach((turn, place) => {
    for (const [section, splices] of Object.entries(turns[turn].change?.lists || {})) {
      if (section === MAIN || !isConversation(section)) continue;
      const begin = turns[branch.line[Math.max(0, place - 1)]].at;
      const agent = found.get(section) ?? { name: agentOf(section), turn, from: begin, messages: 0 };
      agent.until = turns[turn].at;
      agent.messages += splices.reduce((sum, [, , added]) => sum + added.length, 0);
      found.set(section, agent);
    }
  });
  return [...found.values()];
}

/** Agents on a clock: which ran beside each other, and how long. */
function agentsPart(branch) {
  const agents = agentsOnClock(branch);
  if (!agents.length) return null;
  const width = chartWidth();
  const names = Math.min(NAMES_WIDTH, width * 0.4);
  // Long pauses take no room on the clock.
  const stops = [...new Set(agents.flatMap(({ from, until }) => [from, until]))].sort((a, b) => a - b);
  const places = new Map();
  let at = 0;
  stops.forEach((time, index) => {
    at += index ? Math.min(time - stops[index - 1], PAUSE_MS) : 0;
    places.set(time, at);
  });
  const x = (time) => names + ((width - names - 4) * places.get(time)) / (at || 1);
  const shown = agents.slice(0, MOST_AGENTS);
  const words = (agent) => inWords([agent.name, duration(agent.until - agent.from), plural(agent.messages, "message")]);
  const bar = (agent, row) => chartLink(hashOf(branch, agent.turn), words(agent), s("text", { class: "end", x: names - 8, y: row * 17 + 13 }, cutAt(agent.name, Math.floor(names / 7))),
    s("rect", { x: x(agent.from), y: row * 17 + 3, width: Math.max(3, x(agent.until) - x(agent.from)), height: 11, rx: 3 }));
  return part("Agents on a clock", inWords([plural(agents.length, "agent"), agents.length > shown.length && `the first ${shown.length}`, "pauses count up to five minutes"]),
    chart(width, shown.length * 17, `${plural(agents.length, "agent")} on a clock`, shown.map(bar)),
    tableOf("Agents on a clock", ["agent", "begins", "takes", "messages"], agents.map((agent) => [h("a", { href: hashOf(branch, agent.turn) }, agent.name), `${dayOf(agent.from)} ${clockTime(agent.from)}`, duration(agent.until - agent.from), agent.messages.toLocaleString("en")])));
}

/** How long the steps with each tool took, the model included, and how long the next prompt was waited for. */
function timesOf(branch) {
  const times = new Map();
  const add = (name, ms, turn) => {
    const time = times.get(name) ?? { name, ms: 0, steps: 0, longest: -1, turn };
    time.ms += ms;
    time.steps += 1;
    if (ms > time.longest) Object.assign(time, { longest: ms, turn });
    times.set(name, time);
  };
  branch.line.forEach((turn, place) => {
    if (!place) return;
    const took = Math.max(0, turns[turn].at - turns[branch.line[place - 1]].at);
    const tools = Object.entries(turns[turn].tools || {});
    const calls = callsOf(turns[turn]);
    if (turns[turn].prompt !== undefined && !calls) add("until the next prompt", took, turn);
    else if (!calls) add("answers without a tool", took, turn);
    for (const [name, many] of tools) add(name || "tool", (took * many) / calls, turn);
  });
  return [...times.values()].filter(({ ms }) => ms >= 1000).sort((a, b) => b.ms - a.ms);
}

function timesPart(branch) {
  const times = timesOf(branch);
  if (!times.length) return null;
  const most = times[0].ms;
  const line = (time) => h("p", { class: "tool-line", title: `${plural(time.steps, "step")}, the longest ${duration(time.longest)}` }, h("span", {}, h("a", { href: hashOf(branch, time.turn) }, time.name)), h("span", { class: "bar" }, h("span", { "width%": (100 * time.ms) / most })), h("span", {}, duration(time.ms)));
  return part("Time by tool", "from the step before, with the model; each name leads to its longest step", lazily(times, (some) => some.map(line), 12));
}

function chartsView(branch) {
  const parts = [growthPart(branch), heatPart(branch), agentsPart(branch), timesPart(branch)].filter(Boolean);
  return h("article", { class: "page", "aria-label": "Charts" }, h("header", { class: "view-head" }, h("h2", {}, "Charts"), h("p", { class: "facts" }, h("span", {}, branches.length > 1 && `${branch.name}, `, plural(branch.line.length, "turn"))), noteOlder()),
    parts.length ? parts : h("p", { class: "quiet" }, "These turns record no tokens, times or files to draw."));
}

// What the lines mean: branches, contexts made from what turns changed, chapters of the story.

const FILES = "files";
const MAIN = "agents/main/messages";
const isConversation = (section) => section.endsWith("/messages");
const agentOf = (section) => section.split("/")[1];

/** @typedef {{name: string, index: number, line: number[], own: number[], places: Map<number, number>, fork: number | undefined, chapters: Chapter[] | null}} Branch */
/** @typedef {{turn: number, turns: number[], number: number | undefined, tools: number, failed: number, files: Set<string>, added: number, removed: number, compactions: number, checks: Map<string, boolean>}} Chapter */

/** @type {Branch[]} */
const branches = [];
/** The branch that a turn is drawn on. */
const owner = new Map();

/** Makes the branches of the head, each with its turns, oldest first, and those that are its own. */
function setBranches() {
  branches.length = 0;
  owner.clear();
  header.branches.forEach(({ name, tip }, index) => {
    const line = [];
    for (let at = tip; at !== undefined; at = turns[at].parents[0]) line.push(at);
    line.reverse();
    const places = new Map(line.map((turn, at) => [turn, at]));
    const own = line.filter((turn) => !owner.has(turn));
    own.forEach((turn) => owner.set(turn, index));
    const fork = own.length === 0 ? line.at(-1) : line[places.get(own[0]) - 1];
    branches.push({ name, index, line, own, places, fork, chapters: null });
  });
}

/** The turn with a number on a branch, or the nearest before it. */
function turnNumbered(branch, number) {
  let [low, high] = [0, branch.line.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (turns[branch.line[middle]].turn <= number) low = middle;
    else high = middle - 1;
  }
  return branch.line[low];
}

const states = new Map();

/** The context after a turn; `null` when it is not kept. */
function stateAt(index) {
  if (index === null || index === undefined) return { lists: new Map(), files: new Map(), entries: new Map() };
  if (!turns[index].change) return null;
  if (states.has(index)) return states.get(index);
  const chain = [];
  for (let at = index; at !== null; at = turns[at].change.base) chain.push(at);
  const state = { lists: new Map(), files: new Map(), entries: new Map() };
  for (const at of chain.reverse()) apply(state, turns[at].change);
  states.set(index, state);
  if (states.size > 8) states.delete(states.keys().next().value);
  return state;
}

function apply(state, change) {
  for (const [section, splices] of Object.entries(change.lists)) {
    const old = state.lists.get(section) || [];
    const list = [];
    let copied = 0;
    if (splices.length === 1 && splices[0][0] === old.length) {
      for (const number of splices[0][2]) old.push(number);
      state.lists.set(section, old);
      continue;
    }
    for (const [at, removed, added] of splices) {
      for (; copied < at; copied += 1) list.push(old[copied]);
      for (const number of added) list.push(number);
      copied += removed;
    }
    for (; copied < old.length; copied += 1) list.push(old[copied]);
    state.lists.set(section, list);
  }
  for (const [path, , , text, mode, size] of change.files) {
    if (text === undefined) state.files.delete(path);
    else state.files.set(path, { text, mode, size });
  }
  for (const [section, key, text] of change.entries) {
    const place = key ? `${section}/${key}` : section;
    if (text === null) state.entries.delete(place);
    else state.entries.set(place, text);
  }
}

const written = new WeakMap();

/** What stood at a place before a turn of a branch: the number of a text; `undefined` for nothing. */
function formerly(/** @type {Branch} */ branch, /** @type {number} */ turn, /** @type {string} */ place) {
  if (!written.has(branch)) {
    const all = new Map();
    const put = (name, at, number) => (all.has(name) ? all.get(name).push(at, number) : all.set(name, [at, number]));
    branch.line.forEach((index, at) => {
      for (const [path, , , number] of turns[index].change?.files || []) put(`${FILES}/${path}`, at, number);
      for (const [section, key, number] of turns[index].change?.entries || []) put(key ? `${section}/${key}` : section, at, number ?? undefined);
    });
    written.set(branch, all);
  }
  const writes = written.get(branch).get(place) || [];
  let at = writes.length - 2;
  while (at >= 0 && writes[at] >= branch.places.get(turn)) at -= 2;
  return at < 0 ? undefined : writes[at + 1];
}

/** Messages that a turn added to the conversations whose section fits. */
function addedMessages(turn, fits = isConversation) {
  const lists = Object.entries(turn.change?.lists || {}).filter(([section]) => fits(section));
  return lists.flatMap(([, splices]) => splices.flatMap(([, , numbers]) => numbers));
}

const CHECK = "check.";

/** The results of checks that a turn records. */
const checksOf = (turn) =>
  (turn.meta ? Object.entries(turn.meta) : []).filter(([name]) => name.startsWith(CHECK)).map(([name, result]) => /** @type {[string, boolean]} */ ([name.slice(CHECK.length), result === "passed"]));

const callsOf = (turn) => (turn.tools ? Object.values(turn.tools).reduce((sum, calls) => sum + calls, 0) : 0);

/** What a turn did, as one word: the strongest first. */
const kindOf = (turn) => (turn.kind ??= strongest(turn));

function strongest(turn) {
  if (turn.prompt !== undefined) return "prompt";
  if (turn.trigger === "compaction" || turn.trigger === "rollback") return "turned";
  if (turn.failed || checksOf(turn).some(([, passed]) => !passed)) return "error";
  if (checksOf(turn).length) return "passed";
  if (turn.change?.files.length) return "edit";
  return "other";
}

/** The story of a branch: prompts, each with the turns that came of it. */
function chaptersOf(/** @type {Branch} */ branch) {
  if (branch.chapters) return branch.chapters;
  /** @type {Chapter[]} */
  const chapters = [];
  for (const index of branch.line) {
    const turn = turns[index];
    if (turn.prompt !== undefined || chapters.length === 0) {
      chapters.push({ turn: index, turns: [], number: turn.prompt, tools: 0, failed: 0, files: new Set(), added: 0, removed: 0, compactions: 0, checks: new Map() });
    }
    const chapter = chapters[chapters.length - 1];
    chapter.turns.push(index);
    chapter.tools += callsOf(turn);
    chapter.failed += turn.failed || 0;
    chapter.compactions += turn.trigger === "compaction" ? 1 : 0;
    for (const [path, added, removed] of turn.change?.files || []) {
      chapter.files.add(path);
      chapter.added += added;
      chapter.removed += removed;
    }
    for (const [name, passed] of checksOf(turn)) chapter.checks.set(name, passed);
  }
  branch.chapters = chapters;
  return chapters;
}

/** Longest pause in which somebody still counts as at work. */
const PAUSE_MS = 5 * 60000;

/** What a branch is about, in numbers. */
function sumOf(branch) {
  const sum = { prompts: 0, steps: 0, tools: new Map(), calls: 0, failed: 0, read: 0, cached: 0, wrote: 0, cost: 0, compactions: 0, files: new Map(), checks: new Map(), models: new Set(), agents: new Set(), active: 0, context: 0, expired: 0 };
  let before = null;
  for (const index of branch.line) {
    const turn = turns[index];
    if (turn.prompt === undefined) sum.steps += 1;
    else sum.prompts += 1;
    for (const [tool, calls] of Object.entries(turn.tools || {})) {
      sum.tools.set(tool, (sum.tools.get(tool) || 0) + calls);
      sum.calls += calls;
    }
    sum.failed += turn.failed || 0;
    const [read, cached, wrote] = turn.tokens || [0, 0, 0];
    sum.read += read;
    sum.cached += cached;
    sum.wrote += wrote;
    sum.cost += turn.cost || 0;
    sum.compactions += turn.trigger === "compaction" ? 1 : 0;
    sum.expired += turn.change ? 0 : 1;
    for (const [path, added, removed] of turn.change?.files || []) {
      const [a, r] = sum.files.get(path) || [0, 0];
      sum.files.set(path, [a + added, r + removed]);
    }
    for (const [name, passed] of checksOf(turn)) sum.checks.set(name, passed);
    if (turn.model) sum.models.add(turn.model);
    if (turn.agent) sum.agents.add(turn.agent);
    if (turn.context) sum.context = turn.context;
    if (before !== null) sum.active += Math.min(Math.max(0, turn.at - before), PAUSE_MS);
    before = turn.at;
  }
  return sum;
}

/** Tokens that fit in front of a model, as its vendor says; by the beginning of its name. */
const WINDOWS = [["claude", 200000], ["gpt-5", 400000], ["gpt-4.1", 1047576], ["gpt-4o", 128000], ["o3", 200000], ["o4", 200000], ["gemini", 1048576], ["glm-4", 200000]];

/** How full the context is, in percent; `null` where the model is not known, or has a larger one. */
function fullness(model, tokens) {
  const name = (model || "").split("/").at(-1);
  const known = WINDOWS.find(([start]) => name.startsWith(String(start)));
  const percent = known && tokens ? Math.round((100 * tokens) / Number(known[1])) : null;
  return percent !== null && percent <= 100 ? percent : null;
}

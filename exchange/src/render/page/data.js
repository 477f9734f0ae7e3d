// What the lines mean: branches, what turns did, contexts made from what they changed.

const FILES = "files";
const MAIN = "agents/main/messages";
const isConversation = (section) => section.endsWith("/messages");
const agentOf = (section) => section.split("/")[1];

/** @typedef {{name: string, index: number, line: number[], own: number[], places: Places, fork: number | undefined, story: Story | null, told?: Promise<void>}} Branch */

/** @type {Branch[]} */
const branches = [];
/** The branch that each turn is drawn on; -1 for a turn of none. */
let owner = new Int32Array(0);

/** Where turns stand on a branch. */
class Places {
  constructor(/** @type {number[]} */ line) {
    this.places = new Int32Array(turns.length).fill(-1);
    for (let at = 0; at < line.length; at += 1) this.places[line[at]] = at;
  }

  has(/** @type {number} */ turn) {
    return this.places[turn] >= 0;
  }

  get(/** @type {number} */ turn) {
    return this.places[turn] >= 0 ? this.places[turn] : undefined;
  }
}

/** Makes the branches of the head, each with its turns, oldest first, and those that are its own. */
function setBranches() {
  branches.length = 0;
  owner = new Int32Array(turns.length).fill(-1);
  header.branches.forEach(({ name, tip }, index) => {
    const line = [];
    for (let at = tip; at !== undefined; at = turns[at].parents[0]) line.push(at);
    line.reverse();
    const places = new Places(line);
    const own = line.filter((turn) => owner[turn] < 0);
    own.forEach((turn) => { owner[turn] = index; });
    const fork = own.length === 0 ? line.at(-1) : line[places.get(own[0]) - 1];
    branches.push({ name, index, line, own, places, fork, story: null });
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
  if (index === undefined) needOlder();
  if (index === null || index === undefined) return { lists: new Map(), files: new Map(), entries: new Map() };
  if (!turns[index].change) return null;
  if (states.has(index)) return states.get(index);
  const chain = [];
  for (let at = index; at !== null; at = turns[at].change.base) {
    if (at === undefined) needOlder();
    if (at === undefined) break;
    chain.push(at);
  }
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
  // A server says so, since what is older may be on its way.
  const { before, files, entries } = turns[turn].change;
  if (before) {
    const file = files.findIndex(([path]) => `${FILES}/${path}` === place);
    return before[file >= 0 ? file : files.length + entries.findIndex(([section, key]) => (key ? `${section}/${key}` : section) === place)];
  }
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
/** @type {[string, boolean][]} */
const NO_CHECKS = [];

/** The results of checks that a turn records. */
function checksOf(turn) {
  let found = NO_CHECKS;
  for (const name in turn.meta) {
    if (!name.startsWith(CHECK)) continue;
    if (found === NO_CHECKS) found = [];
    found.push([name.slice(CHECK.length), turn.meta[name] === "passed"]);
  }
  return found;
}

function callsOf(turn) {
  let sum = 0;
  for (const tool in turn.tools) sum += turn.tools[tool];
  return sum;
}

/** What turns did, as one word each: the strongest first. */
const kindOf = (turn) => (turn.kind ??= strongest(turn));

function strongest(turn) {
  if (turn.prompt !== undefined) return "prompt";
  if (turn.trigger === "compaction" || turn.trigger === "rollback") return "turned";
  const checks = checksOf(turn);
  if (turn.failed || checks.some(([, passed]) => !passed)) return "error";
  if (checks.length) return "passed";
  if (turn.change?.files.length) return "edit";
  return "other";
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

// What the lines mean: branches, what turns did, contexts made from what they changed.

const FILES = "files";
const MAIN = "agents/main/messages";
const isConversation = (section) => section.endsWith("/messages");
const agentOf = (section) => section.split("/")[1];

/** @typedef {{name: string, index: number, line: number[], own: number[], places: Places, fork: number | undefined, story: Story | null, told?: Promise<void>}} Branch */

/** @type {Branch[]} */
let branches = [];
/** The branch that each turn is drawn on; -1 for a turn of none. */
let owner = new Int32Array(0);

/** @typedef {{get: (turn: number) => number | undefined, has: (turn: number) => boolean}} Places */

/** Where turns stand on a branch: as many are before a turn on each branch that has it. */
function placesOf(/** @type {number[]} */ line, /** @type {Int32Array} */ depths) {
  const has = (/** @type {number} */ turn) => depths[turn] >= 0 && line[depths[turn]] === turn;
  return { has, get: (/** @type {number} */ turn) => (has(turn) ? depths[turn] : undefined) };
}

/** Turns between two looks at the clock. */
const STRIDE = 1024;

/**
 * Makes the branches of the head, each with its turns, oldest first, and those that are its own. They come
 * in the place of those that were there when the story of one of them is told, which is returned.
 */
async function setBranches(name = "") {
  /** @type {Branch[]} */
  const laid = [];
  // What comes meanwhile is laid the next time.
  const [owners, depths] = [0, 1].map(() => new Int32Array(turns.length).fill(-1));
  const slice = new Slice();
  for (const branch of header.branches) {
    const own = [];
    let at = branch.tip;
    for (; owners[at] === -1; at = turns[at].parents[0]) {
      owners[at] = laid.length;
      own.push(at);
      if (own.length % STRIDE === 0 && slice.over()) await slice.rest();
    }
    own.reverse();
    const fork = owners[at] >= 0 ? at : undefined;
    const line = fork === undefined ? own : laid[owners[fork]].line.slice(0, depths[fork] + 1).concat(own);
    own.forEach((turn, place) => { depths[turn] = line.length - own.length + place; });
    const old = branches.find((one) => one.name === branch.name);
    const isLonger = old?.story && line[old.line.length - 1] === old.line.at(-1) && line.length - old.line.length <= SHORT;
    laid.push({ name: branch.name, index: laid.length, line, own, places: placesOf(line, depths), fork, story: isLonger ? old.story : null });
    if (slice.over()) await slice.rest();
  }
  const shown = laid.find((branch) => branch.name === name) || laid[0];
  if (!shown.story) await tell(shown);
  [branches, owner] = [laid, owners];
  return shown;
}

/** The turn with a number on a branch, or the nearest before it. */
const turnNumbered = (branch, number) => branch.line[lastFitting(branch.line.length, (place) => turns[branch.line[place]].turn <= number)];

/** Contexts that were made, or are being made. */
const states = new Map();
const MOST_STATES = 8;

const emptyState = () => ({ lists: new Map(), files: new Map(), entries: new Map() });

/** The context after a turn; `null` when it is not kept. Throws `Absent` where it is long and not made yet. */
function stateAt(index) {
  if (index === undefined) needOlder();
  if (index === null || index === undefined) return emptyState();
  if (!turns[index].change) return null;
  const known = states.get(index);
  if (known instanceof Promise) throw new Absent(known);
  if (known) return known;
  const chain = [];
  for (let at = index; at !== null; at = turns[at].change.base) {
    if (at === undefined) needOlder();
    if (at === undefined) break;
    chain.push(at);
  }
  const making = replaying(index, chain);
  if (chain.length <= SHORT) for (const _ of making);
  else states.set(index, inSlices(making));
  return stateAt(index);
}

/** Makes a context from the changes of turns, newest first; rests behind each. */
function* replaying(index, chain) {
  const state = emptyState();
  for (const at of chain.reverse()) {
    apply(state, turns[at].change);
    yield;
  }
  states.delete(index);
  states.set(index, state);
  if (states.size > MOST_STATES) states.delete(states.keys().next().value);
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

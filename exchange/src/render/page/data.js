// The data: lines of JSON, parsed when they are looked at; contexts are made from what turns changed.

const raw = { x: [], m: [] };
const turns = [];
let header = { title: "", branches: [] };
for (const line of byId("data").textContent.split("\n")) {
  const letter = line[0];
  if (letter === "x" || letter === "m") raw[letter].push(line);
  else if (letter === "t") turns.push(JSON.parse(line.slice(1)));
  else if (letter === "h") header = JSON.parse(line.slice(1));
}

const parsed = (kind) => {
  const known = new Map();
  return (index) => {
    if (!known.has(index)) known.set(index, JSON.parse(raw[kind][index].slice(1)));
    return known.get(index);
  };
};

/** A text: a string, or `{bytes, id, why}` for one that is not shown. */
const textAt = parsed("x");

/** A message as it is viewed. */
const messageAt = parsed("m");

const FILES = "files";
const isConversation = (section) => section.endsWith("/messages");
const agentOf = (section) => section.split("/")[1];

/** Branches with their turns, oldest first, and the turns that are theirs alone. */
const branches = header.branches.map((branch, index) => {
  const line = [];
  for (let at = branch.tip; at !== undefined; at = turns[at].parents[0]) line.push(at);
  line.reverse();
  return { name: branch.name, index, line, places: new Map(line.map((t, at) => [t, at])) };
});
const owner = new Map();
for (const branch of branches) {
  branch.own = branch.line.filter((turn) => !owner.has(turn));
  branch.own.forEach((turn) => owner.set(turn, branch.index));
  const before = branch.places.get(branch.own[0]) - 1;
  branch.fork = branch.own.length === 0 ? branch.line.at(-1) : branch.line[before];
}

/** The turn with a number on a branch, or the nearest before it. */
function turnNumbered(branch, number) {
  const numbers = branch.line.map((turn) => turns[turn].turn);
  const after = numbers.findIndex((found) => found > number);
  return branch.line[after < 0 ? numbers.length - 1 : Math.max(0, after - 1)];
}

/** The turn in which each message and each text came. */
const born = { m: new Map(), x: new Map() };
turns.forEach((turn, index) => {
  const meet = (kind, number, where) => born[kind].has(number) || born[kind].set(number, { turn: index, where });
  for (const [section, splices] of Object.entries(turn.change?.lists || {})) {
    const kind = isConversation(section) ? "m" : "x";
    for (const [, , added] of splices) added.forEach((number) => meet(kind, number, section));
  }
  for (const [path, text] of turn.change?.files || []) if (text !== undefined) meet("x", text, `${FILES}/${path}`);
  for (const [section, key, text] of turn.change?.entries || []) {
    if (text !== null) meet("x", text, key ? `${section}/${key}` : section);
  }
});

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
  if (states.size > 12) states.delete(states.keys().next().value);
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
  for (const [path, text, mode, size] of change.files) {
    if (text === undefined) state.files.delete(path);
    else state.files.set(path, { text, mode, size });
  }
  for (const [section, key, text] of change.entries) {
    const place = key ? `${section}/${key}` : section;
    if (text === null) state.entries.delete(place);
    else state.entries.set(place, text);
  }
}

/** Counts of what a turn did. */
function tally(turn) {
  const sum = { added: 0, dropped: 0, files: turn.change?.files.length || 0, notes: turn.change?.entries.filter(([section]) => section !== "meta").length || 0 };
  for (const [section, splices] of Object.entries(turn.change?.lists || {})) {
    for (const [, removed, added] of splices) {
      if (isConversation(section)) {
        sum.added += added.length;
        sum.dropped += removed;
      } else sum.notes += 1;
    }
  }
  return sum;
}
const tallies = turns.map(tally);

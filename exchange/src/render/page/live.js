// Where the data of a page that is served comes from: its server, which is asked for what is shown.
//
// Turns come as lines and name their texts and messages. Those are fetched when they are looked at
// first: that throws `Absent`, and the caller tries again when they have arrived.

/** Lines that are fetched together, since what stands beside each other is shown together. */
const BLOCK = { x: 8, m: 32 };

/** Characters of names in one address. */
const MOST_NAMES = 7000;

/** Characters of texts and messages that are kept; what was not looked at lately goes first. */
const KEPT = 48e6;
const KEPT_MS = 30000;

const pause = (/** @type {number} */ ms) => new Promise((kept) => setTimeout(kept, ms));

// The key: in the address once, then in this tab only. Other tabs of this server give it to new ones.

const KEY = "turntree-key";
const tabs = new BroadcastChannel("turntree");
/** @type {string | null} */
let key = null;

function keep(/** @type {string} */ given) {
  key = given;
  try { sessionStorage.setItem(KEY, given); } catch { /* It is in memory. */ }
}

/** Takes the key out of the address, so that no bookmark and no copy of it has it. */
async function findKey() {
  const given = /^#key=([0-9a-f]{64})&?(.*)$/.exec(location.hash);
  tabs.onmessage = ({ data }) => {
    if (data.asks && key) tabs.postMessage({ key });
    else if (typeof data.key === "string" && data.key !== key) keep(data.key);
  };
  if (given) {
    history.replaceState(history.state, "", `${location.pathname}${location.search}${given[2] ? `#${given[2]}` : ""}`);
    keep(given[1]);
    tabs.postMessage({ key });
    return;
  }
  try { key = sessionStorage.getItem(KEY); } catch { /* Others may know it. */ }
  if (key) return;
  tabs.postMessage({ asks: true });
  for (let waited = 0; !key && waited < 500; waited += 20) await pause(20);
}

/** Whether this server makes changes. */
const allowsChanges = () => document.querySelector('meta[name="changes"]').getAttribute("content") === "allowed";

/** A word of a shell: what is no plain name stands in quotes, so that nothing of it is a command. */
const shellWord = (/** @type {string} */ word) => (/^[\w@%+=:,./][\w@%+=:,./-]*$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

// Screens that are not shown first have a script of their own.

/** Those of addresses in a session, and those that are a page: each makes it from the rest of the address. */
const LATE = ["files", "conflicts", "explore", "align"];
/** @type {Record<string, (...given: any[]) => any>} */
const screens = {};
/** @type {Promise<void> | null} */
let screensCome = null;
let hasScreens = false;

/** Fetches the script of the other screens; where the server is away, until it is there again. */
async function fetchScreens() {
  const integrity = document.querySelector('meta[name="screens"]').getAttribute("content");
  for (let wait = 200; !hasScreens; wait = Math.min(5000, 2 * wait)) {
    hasScreens = await new Promise((kept) => document.head.append(h("script", { src: "/screens.js", integrity, on: { load: () => kept(true), error: () => kept(false) } })));
    if (!hasScreens) await pause(wait);
  }
}

/** Throws `Absent` until the other screens are there. */
function needScreens() {
  screensCome ??= fetchScreens();
  if (!hasScreens) throw new Absent(screensCome);
}

function screenNamed(/** @type {string} */ name) {
  if (!LATE.includes(name)) return null;
  needScreens();
  return screens[name];
}

const filesHash = (branch, turn, path = "") => `#files-${turns[turn].turn}${suffix(branch)}${path && `:${encodeURIComponent(path)}`}`;

/** A button that asks for a change. */
const act = (/** @type {string} */ label, /** @type {string} */ kind, place) => h("button", { type: "button", class: "copy", on: { click: () => whenThere(() => {
  needScreens();
  screens.act(kind, place);
}) } }, label);

const mergeOffer = (/** @type {Branch} */ branch) => allowsChanges() && branches.length > 1 && act(`Merge ${branch.name}\u2026`, "merge", endOf(branch));

/** The open conflicts of a branch, and the way to decide them. */
const conflictsOf = (/** @type {Branch} */ branch) => conflictChip(header.branches[branch.index]?.conflicts, `#conflicts${suffix(branch)}`);

/** Commands of the store about a turn. */
function commandsAt(turn) {
  const id = turn.id.slice(0, 12);
  return [["show", `turntree show ${id}`], ["resume", `turntree resume ${id}`], ["fork", `turntree fork NAME --at ${id}`], ["restore", `turntree restore ${id} --dry-run`]];
}

/** What this tab keeps from page to page. */
function inTab(/** @type {string} */ name, value = /** @type {string | undefined} */ (undefined)) {
  try {
    if (value !== undefined) sessionStorage.setItem(name, value);
    return sessionStorage.getItem(name) ?? "";
  } catch { return ""; }
}

/** The filters of the list that was looked at last in this tab. */
const listFilter = () => inTab("turntree-list");

/** The list of all sessions. */
const HOME = `/${listFilter()}`;

/** Where the list stands beside a session. */
const WIDE = "(min-width: 1400px)";

/** What is offered at a turn: its files, and changes where the server makes them. */
function offersAt(turn) {
  const index = numbers.t.get(turn.id);
  const branch = branchWith(index);
  const offer = (/** @type {string} */ label, /** @type {string} */ kind) => act(label, kind, { branch, turn: index });
  return h("span", { class: "offers" }, turn.change && h("a", { class: "button", href: filesHash(branch, index) }, "Files"),
    allowsChanges() && [offer("Fork\u2026", "fork"), offer("Tag\u2026", "tag"), offer("Pin\u2026", "pin"), turn.change && offer("Restore\u2026", "restore"), offer("Roll back\u2026", "rollback"),
      branch.line.at(-1) === index && [branches.length > 1 && offer("Merge\u2026", "merge"), offer("Label\u2026", "label")]]);
}

/** What the server says of a question that it does not answer. */
class Refused extends Error {
  constructor(/** @type {number} */ status, /** @type {string} */ message) { super(message); this.status = status; }
}

/** The open conflicts of a branch or session, and the way to them. */
const conflictChip = (/** @type {number | undefined} */ number, href = /** @type {string | null} */ (null)) =>
  number > 0 && h(href === null ? "span" : "a", { class: "conflicts", href }, plural(number, "conflict"));

/** Asks the server; with a body, for a change. */
async function ask(/** @type {string} */ path, signal = /** @type {AbortSignal | undefined} */ (undefined), body = /** @type {object | null} */ (null)) {
  const headers = { authorization: `Bearer ${key}`, ...(body && { "content-type": "application/json" }) };
  const answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), cache: "no-store", signal });
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, said.message || `the server answered ${answer.status}`);
}

/** The lines of an answer, as they come; one that begins with `e` says why it ends early. */
async function* eachLine(/** @type {Response} */ answer) {
  const stream = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (let part = await stream.read(); !part.done; part = await stream.read()) {
      const lines = (rest + part.value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (line[0] === "e") throw new Refused(500, JSON.parse(line.slice(1)).message);
        if (line) yield line;
      }
    }
  } finally {
    stream.cancel().catch(() => {});
  }
}

// Turns.

/** @type {any[]} */
const turns = [];
/** @type {any} */
let header = { title: "", branches: [] };
/** The head that came last, whose branches may end in turns that are still to come. */
let told = /** @type {any} */ (null);

/** Numbers by name, and names by number. */
const numbers = { x: new Map(), m: new Map(), t: new Map() };
const names = { x: /** @type {string[]} */ ([]), m: /** @type {string[]} */ ([]) };

const count = (/** @type {"x" | "m"} */ kind) => names[kind].length;

function numberOf(/** @type {"x" | "m"} */ kind, /** @type {string} */ name) {
  if (!numbers[kind].has(name)) numbers[kind].set(name, names[kind].push(name) - 1);
  return numbers[kind].get(name);
}

/**
 * Kept while older turns are on their way: newer ones come first.
 * @type {{come: Promise<void>, kept: () => void} | null}
 */
let older = null;

function waitForOlder() {
  let kept;
  const come = /** @type {Promise<void>} */ (new Promise((it) => { kept = it; }));
  older ??= { come, kept };
}

/** Throws `Absent` while what is missed may still come. */
function needOlder() {
  if (older) throw new Absent(older.come);
}

const noteOlder = () => older && h("p", { class: "quiet", role: "status" }, `So far of the newest ${turns.length.toLocaleString("en")} turns: older ones are on their way.`);

/** Takes in a line of a turn or a head. */
function feed(/** @type {string} */ line) {
  const value = JSON.parse(line.slice(1));
  if (line[0] === "h") told = value;
  else if (line[0] === "t" && !numbers.t.has(value.id)) takeTurn(value);
}

/** The ids of turns that nothing here goes on from. */
const ends = new Set();

/** By the id of a turn that is still to come: what is done then. */
const awaited = new Map();

/** Links a turn with those it goes on from, as far as they are there: a line ends where its next turn is missed. */
function link(turn, parents, base) {
  turn.parents = numbers.t.has(parents[0]) ? parents.map((id) => numbers.t.get(id)).filter((number) => number !== undefined) : [];
  if (turn.change) turn.change.base = base === null ? null : numbers.t.get(base);
  for (const id of parents) ends.delete(id);
  for (const id of new Set([...parents, base])) {
    if (id === null || id === undefined || numbers.t.has(id)) continue;
    const again = () => link(turn, parents, base);
    if (awaited.has(id)) awaited.get(id).push(again);
    else awaited.set(id, [again]);
  }
}

function takeTurn(turn) {
  const { change } = turn;
  link(turn, turn.parents, change?.base);
  if (change) {
    const before = change.before.map((name) => (name === null ? undefined : numberOf("x", name)));
    change.before = before.length ? before : NONE;
    for (const [section, splices] of Object.entries(change.lists)) {
      const kind = section.endsWith("/messages") ? "m" : "x";
      for (const splice of splices) splice[2] = splice[2].map((name) => numberOf(kind, name));
    }
    for (const file of change.files) if (file[3] !== undefined) file[3] = numberOf("x", file[3]);
    for (const entry of change.entries) if (entry[2] !== null) entry[2] = numberOf("x", entry[2]);
  }
  numbers.t.set(turn.id, turns.length);
  turns.push(turn);
  const waiting = awaited.get(turn.id);
  if (!waiting) ends.add(turn.id);
  awaited.delete(turn.id);
  for (const again of waiting || []) again();
}

/** @type {(number | undefined)[]} */
const NONE = [];

/** Makes the head of what is there: while turns come, one line up to the newest of them. */
function settleHead() {
  const branches = told.branches.map((branch) => ({ ...branch, tip: numbers.t.get(branch.tip) })).filter(({ tip }) => tip !== undefined);
  if (!branches.length && turns.length) branches.push({ name: told.branches[0].name, tip: turns.length - 1 });
  header = { ...told, branches, compare: header.compare, explorations: header.explorations };
}

// Texts and messages.

/** By number: the value, its characters, and when it was looked at. */
const known = { x: new Map(), m: new Map() };
const wanted = { x: new Set(), m: new Set() };
let characters = 0;
let coming = /** @type {Promise<any> | null} */ (null);

function lookAt(/** @type {"x" | "m"} */ kind, /** @type {number} */ number) {
  if (kind === "x" && names.x[number] === "") return "";
  const found = known[kind].get(number);
  if (found) {
    found.at = performance.now();
    return found.value;
  }
  const from = number - (number % BLOCK[kind]);
  for (let at = from; at < from + BLOCK[kind] && at < names[kind].length; at += 1) {
    if (!known[kind].has(at) && names[kind][at] !== "") wanted[kind].add(at);
  }
  coming ??= breathe().then(fetchWanted).finally(() => { coming = null; });
  throw new Absent(coming);
}

/** Fetches what was looked at; where the server is away, once it is there again. */
async function fetchWanted() {
  for (const kind of /** @type {const} */ (["m", "x"])) {
    const all = [...wanted[kind]];
    wanted[kind].clear();
    while (all.length) await fetchLines(kind, all.splice(0, fitting(kind, all)));
  }
  if (characters > KEPT) forget();
}

/** How many of some lines one address has room for: at least one. */
function fitting(/** @type {"x" | "m"} */ kind, /** @type {number[]} */ some) {
  let left = MOST_NAMES;
  const full = some.findIndex((number) => (left -= names[kind][number].length + 1) < 0);
  return full < 0 ? Math.min(some.length, BLOCK.m) : Math.max(1, Math.min(full, BLOCK.m));
}

async function fetchLines(/** @type {"x" | "m"} */ kind, /** @type {number[]} */ some) {
  for (let wait = 200; ; wait = Math.min(5000, 2 * wait)) {
    try {
      let at = 0;
      for await (const line of eachLine(await ask(`/api/parts?names=${some.map((number) => names[kind][number]).join(",")}`))) {
        known[kind].set(some[at], { value: JSON.parse(line.slice(1)), size: line.length, at: performance.now() });
        characters += line.length;
        at += 1;
      }
      if (at === some.length) return;
    } catch (error) {
      if (error instanceof Refused) sayState(error.message);
    }
    await pause(wait);
  }
}

function forget() {
  const until = performance.now() - KEPT_MS;
  for (const lines of [known.m, known.x]) {
    for (const [number, { size, at }] of lines) {
      if (at >= until) continue;
      lines.delete(number);
      characters -= size;
    }
  }
}

/** A text: a string, or `{bytes, id, why}` for one that is not shown. */
const textAt = (/** @type {number} */ number) => lookAt("x", number);

/** A message as it is viewed. */
const messageAt = (/** @type {number} */ number) => lookAt("m", number);

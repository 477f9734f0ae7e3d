// The source that is this file: turns, which are all read at the start, and texts and messages by number.
//
// These lie in blocks that say the numbers of the first text and the first message in them. Each is read,
// and inflated if it is compressed, when a line of it is looked at.

/** @type {any[]} */
const turns = [];
/** @type {any} */
let header = { title: "", branches: [], texts: 0, messages: 0 };

/** Screens that only a page that is served has. */
const screenNamed = (/** @type {string} */ _name) => /** @type {any} */ (null);
const needScreens = () => {};

/** All turns are there: nothing older is waited for. */
const needOlder = () => {};
const noteOlder = () => /** @type {any} */ (null);

/** Conflicts are decided, branches merged and lines asked for only where there is a server. */
const conflictsOf = (/** @type {any} */ _branch) => /** @type {any} */ (null);
const mergeOffer = (/** @type {any} */ _branch) => /** @type {any} */ (null);
const filesHash = (/** @type {any} */ _branch, /** @type {number} */ _turn, /** @type {string} */ _path = "") => /** @type {any} */ (null);
const HOME = null;

/** Who is sent this file has no store for commands, but may send a turn on. */
const commandsAt = (turn) => [["link", `${location.href.split("#")[0]}${keyed(`#id-${turn.id.slice(0, 12)}`)}`, "Copy the link"]];

/** What is offered at a turn only where there is a server. */
const offersAt = (/** @type {any} */ _turn) => /** @type {any} */ (null);

/** How many lines of a kind there are. */
const count = (kind) => (kind === "m" ? header.messages : header.texts);

/** Takes in a line of the outline: a turn, or the head. */
function takeLine(/** @type {string} */ line) {
  if (line[0] === "t") turns.push(JSON.parse(line.slice(1)));
  else if (line[0] === "h") header = JSON.parse(line.slice(1));
}

/** Most blocks that are kept as they were read. */
const MOST_BLOCKS = 96;

/** @type {any[]} */
let contents = [];

/** By kind: the number of the first line of each block. */
let firsts = {};

/** Blocks that were read: the text, and by kind where each line begins and ends. */
const read = new Map();
/** Blocks that are being inflated. */
const coming = new Map();

const bytesOf = (/** @type {string} */ base64) => Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));

async function inflated(node) {
  return new Response(new Blob([node.packed ?? bytesOf(node.textContent)]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

/** Finds the lines of a block, and forgets the block that was read first when they are many. */
function keep(at, text) {
  const places = { x: [], m: [] };
  for (let from = 0, end = text.indexOf("\n"); end >= 0; from = end + 1, end = text.indexOf("\n", from)) {
    places[text[from]]?.push(from + 1, end);
  }
  if (read.size >= MOST_BLOCKS) read.delete(read.keys().next().value);
  read.set(at, { text, places });
}

/** The last block whose first line of a kind is no later than a number. */
const blockWith = (kind, number) => lastFitting(firsts[kind].length, (block) => firsts[kind][block] <= number);

/** A line of a kind as it is written; throws `Absent`. */
function lineOf(/** @type {string} */ kind, /** @type {number} */ number) {
  const at = blockWith(kind, number);
  if (!read.has(at)) {
    if ("deflate" in contents[at].dataset) {
      if (!coming.has(at)) {
        coming.set(at, inflated(contents[at]).then((text) => {
          keep(at, text);
          coming.delete(at);
        }));
      }
      throw new Absent(coming.get(at));
    }
    keep(at, contents[at].textContent);
  }
  const { text, places } = read.get(at);
  const place = 2 * (number - firsts[kind][at]);
  return text.slice(places[kind][place], places[kind][place + 1]);
}

/** Parses lines of a kind when they are looked at, and forgets them when they are many. */
const parsed = (kind, most) => {
  const known = new Map();
  return (/** @type {number} */ number) => {
    if (!known.has(number)) {
      const value = JSON.parse(lineOf(kind, number));
      if (known.size >= most) known.clear();
      known.set(number, value);
    }
    return known.get(number);
  };
};

/** A text: a string, or `{bytes, id, why}` for one that is not shown; throws `Absent`. */
const textAt = parsed("x", 400);

/** A message as it is viewed; throws `Absent`. */
const messageAt = parsed("m", 2000);

/** Reads turns and the head, a slice after the other. */
async function readEmbedded() {
  contents = [...document.querySelectorAll(".data[data-m]")];
  firsts = Object.fromEntries(["x", "m"].map((kind) => [kind, contents.map((node) => Number(node.dataset[kind]))]));
  const slice = new Slice();
  for (const node of document.querySelectorAll(".data[data-t]")) {
    const text = "deflate" in /** @type {any} */ (node).dataset ? await inflated(node) : node.textContent;
    for (let from = 0, end = text.indexOf("\n"); end >= 0; from = end + 1, end = text.indexOf("\n", from)) {
      takeLine(text.slice(from, end));
      if (slice.over()) await slice.rest();
    }
  }
}

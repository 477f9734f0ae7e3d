// Where the data comes from: lines of JSON in this file, indexed a slice of time after the other.
//
// `x` is a text, `m` a message, `t` a turn, `h` what the page is about. Texts, messages and turns are
// named by their place among the lines of their kind, so lines can follow at any time, and of several
// heads the last one counts. Lines are kept as places in what was read, and parsed when looked at.

const SLICE_MS = 12;

/** Lets the browser draw and answer keys. */
const breathe = () => new Promise((kept) => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => kept(undefined);
  channel.port2.postMessage(0);
});

/** @type {string[]} */
const chunks = [];
/** Three numbers a line: chunk, from, to. */
const places = { x: /** @type {number[]} */ ([]), m: /** @type {number[]} */ ([]) };
/** @type {any[]} */
const turns = [];
/** @type {any} */
let header = { title: "", branches: [] };

const count = (kind) => places[kind].length / 3;

/** A line as it is written. */
const lineAt = (kind, index) => chunks[places[kind][3 * index]].slice(places[kind][3 * index + 1], places[kind][3 * index + 2]);

/** Takes in the lines of a chunk; returns what stands behind the last line end. */
async function feed(/** @type {string} */ chunk) {
  const number = chunks.push(chunk) - 1;
  let until = performance.now() + SLICE_MS;
  let from = 0;
  for (let end = chunk.indexOf("\n"); end >= 0; from = end + 1, end = chunk.indexOf("\n", from)) {
    const letter = chunk[from];
    if (letter === "x" || letter === "m") places[letter].push(number, from + 1, end);
    else if (letter === "t") turns.push(JSON.parse(chunk.slice(from + 1, end)));
    else if (letter === "h") header = JSON.parse(chunk.slice(from + 1, end));
    if (performance.now() > until) {
      await breathe();
      until = performance.now() + SLICE_MS;
    }
  }
  return chunk.slice(from);
}

/** Reads the data that this file holds, which may be compressed. */
async function readEmbedded() {
  const node = byId("data");
  let rest = "";
  if ("deflate" in node.dataset) {
    const packed = Uint8Array.from(atob(node.textContent), (sign) => sign.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate")).pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await stream.read(); !part.done; part = await stream.read()) rest = await feed(rest + part.value);
  } else {
    for (const part of node.childNodes) rest = await feed(rest + part.data);
  }
  if (rest) await feed(`${rest}\n`);
}

/** Parses lines of a kind when they are looked at, and forgets them when they are many. */
const parsed = (kind, most) => {
  const known = new Map();
  return (/** @type {number} */ index) => {
    if (!known.has(index)) {
      if (known.size >= most) known.clear();
      known.set(index, JSON.parse(lineAt(kind, index)));
    }
    return known.get(index);
  };
};

/** A text: a string, or `{bytes, id, why}` for one that is not shown. */
const textAt = parsed("x", 400);

/** A message as it is viewed. */
const messageAt = parsed("m", 2000);

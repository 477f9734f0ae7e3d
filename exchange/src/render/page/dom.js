// Elements. Content reaches the document here only, and only as text nodes and checked attributes.

const SVG = "http://www.w3.org/2000/svg";

/** A text with the numbers of characters that only turn the direction of others. */
const visible = (/** @type {string} */ text) =>
  text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (mark) => `<U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    } else if (name === "width%") {
      node.style.width = `${value}%`;
    } else {
      node.setAttribute(name, value === true ? "" : visible(String(value)));
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
  return node;
}

/**
 * An HTML element: `h("a", { href: "#x" }, "text")`.
 * @param {string} tag @param {object} [attributes] @param {...any} children @returns {any}
 */
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/**
 * An SVG element.
 * @param {string} tag @param {object} [attributes] @param {...any} children @returns {any}
 */
const s = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** Takes everything out of an element. */
const empty = (node) => { node.replaceChildren(); return node; };

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);

/** What is thrown where something is looked at that is on its way; `come` is kept when it is there. */
class Absent {
  constructor(/** @type {Promise<any>} */ come) { this.come = come; }
}

/** Makes something: at once, or `again` when what it looks at has come. */
function whenThere(make, again = make) {
  try {
    return make();
  } catch (absent) {
    if (!(absent instanceof Absent)) throw absent;
    absent.come.then(() => whenThere(again));
    return null;
  }
}

/** A fold whose content is made when it is first opened; `words()` is what could be found in it. */
function fold(attributes, summary, make, { open = false, words = null } = {}) {
  const details = h("details", attributes, h("summary", {}, summary));
  let made = false;
  details.unfold = () => {
    if (made) return;
    const content = [make()].flat(Infinity).filter(Boolean);
    made = true;
    details.append(...content);
  };
  details.words = words;
  details.addEventListener("toggle", () => details.open && whenThere(details.unfold));
  if (open) {
    details.unfold();
    details.open = true;
  }
  return details;
}

/** Tells what happened to who cannot see it. */
const say = (/** @type {string} */ text) => { byId("said").textContent = text; };

/** A button that puts a text on the clipboard; a file has no right to it in every browser. */
function copyButton(label, text, title = "Copy") {
  const button = h("button", { type: "button", class: "copy", title, "aria-label": title, on: { click: async (event) => {
    event.preventDefault();
    event.stopPropagation();
    const words = typeof text === "function" ? text() : text;
    try {
      await navigator.clipboard.writeText(words);
    } catch {
      const area = h("textarea", { class: "unseen", "aria-hidden": "true" });
      area.value = words;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.dataset.done = "";
    setTimeout(() => delete button.dataset.done, 1200);
    say("Copied");
  } } }, label);
  return button;
}

/** Makes elements some at a time, with a button for the next ones. */
function lazily(items, make, some = 60) {
  const box = h("div", {});
  let shown = 0;
  const more = h("button", { class: "more", type: "button", on: { click: () => whenThere(next) } });
  const next = () => {
    const made = [make(items.slice(shown, shown + some))].flat(Infinity).filter(Boolean);
    more.remove();
    box.append(...made);
    shown += some;
    if (shown < items.length) {
      more.textContent = `Show ${Math.min(some, items.length - shown)} more of ${items.length - shown}`;
      box.append(more);
    }
  };
  next();
  return box;
}

/** The last of some places that fits, where all before it do; the first if none does. */
function lastFitting(/** @type {number} */ many, /** @type {(place: number) => boolean} */ fits) {
  let [low, high] = [0, many - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (fits(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

const plural = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

function bytes(n) {
  const unit = Math.max(0, Math.min(3, Math.floor(Math.log2(n) / 10)));
  const size = n / 1024 ** unit;
  return unit ? `${size < 10 ? size.toFixed(1) : Math.round(size)} ${" KMG"[unit]}iB` : `${n} B`;
}

const short = (n) =>
  n < 1000 ? String(n) : n < 1e6 ? `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`;

const dollars = (cost) => `$${cost.toFixed(cost && cost < 0.01 ? 4 : 2)}`;
const paid = ({ cost, more }) => cost > 0 && dollars(cost) + (more ? "+" : "");

function duration(ms) {
  const seconds = Math.floor(ms / 1000);
  const [minutes, hours, days] = [Math.floor(seconds / 60), Math.floor(seconds / 3600), Math.floor(seconds / 86400)];
  if (minutes === 0) return ms < 1000 ? `${ms} ms` : `${seconds} s`;
  if (hours === 0) return `${minutes}m ${String(seconds % 60).padStart(2, "0")}s`;
  return days === 0 ? `${hours}h ${String(minutes % 60).padStart(2, "0")}m` : `${days}d ${hours % 24}h`;
}

const two = (n) => String(n).padStart(2, "0");

/** A moment as the clock on the wall shows it. */
const clockTime = (ms) => { const at = new Date(ms); return `${two(at.getHours())}:${two(at.getMinutes())}`; };
const dayOf = (ms) => { const at = new Date(ms); return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`; };

/** The beginning of a text; where it goes on, that is said. */
const cutAt = (/** @type {string} */ text, /** @type {number} */ most) => (text.length > most ? `${text.slice(0, most - 1).trimEnd()}\u2026` : text);

/** The first line of a text that says something. */
function firstLine(text, most = 160) {
  const line = /\S[^\n]*/.exec(text);
  return line ? cutAt(line[0], most) : "";
}

/** Counts lines without making them. */
function countLines(text) {
  let lines = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < text.length - 1; at = text.indexOf("\n", at + 1)) lines += 1;
  return lines;
}

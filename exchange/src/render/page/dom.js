// Elements. Content reaches the document here only, and only as text nodes and checked attributes.

const SVG = "http://www.w3.org/2000/svg";

/** A text with the numbers of characters that only turn the direction of others. */
const visible = (text) =>
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
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
  return node;
}

/** An HTML element: `h("a", { href: "#x" }, "text")`. */
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An SVG element. */
const s = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

const byId = (id) => document.getElementById(id);

/** A fold whose content is made when it is first opened. */
function fold(attributes, summary, make, open = false) {
  const details = h("details", attributes, h("summary", {}, summary));
  let made = false;
  const unfold = () => {
    if (made) return;
    made = true;
    details.append(...[make()].flat(Infinity).filter(Boolean));
  };
  details.unfold = unfold;
  details.addEventListener("toggle", () => details.open && unfold());
  if (open) {
    unfold();
    details.open = true;
  }
  return details;
}

const plural = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

function bytes(n) {
  if (n < 1024) return `${n} B`;
  const units = ["KiB", "MiB", "GiB"];
  let size = n / 1024;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

const short = (n) =>
  n < 1000 ? String(n) : n < 1e6 ? `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`;

/** The first line of a text that says something. */
function firstLine(text, most = 160) {
  const line = /\S[^\n]*/.exec(text);
  return line ? line[0].slice(0, most) : "";
}

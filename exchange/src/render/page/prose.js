// Text of messages: a little of Markdown, made of elements and text nodes; nothing is ever a link.

const MOST_LINES = 120;
const MOST_CHARACTERS = 12000;

const CODE_OR_BOLD = /(`+)(?!`)([^\n]*?[^`\n])\1(?!`)|\*\*([^*\n]+)\*\*/g;

/** Inline code and bold in a line or paragraph. */
function inline(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(CODE_OR_BOLD)) {
    parts.push(text.slice(at, found.index));
    parts.push(found[3] === undefined ? h("code", {}, found[2]) : h("strong", {}, found[3]));
    at = found.index + found[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

/** A text as paragraphs, headings, lists, tables and code. */
function prose(text) {
  const blocks = [];
  let open = null;
  const close = () => {
    if (open) blocks.push(open.kind === "table" ? h("pre", { class: "table" }, open.lines.join("\n")) : h("p", {}, inline(open.lines.join("\n"))));
    open = null;
  };
  const add = (kind, line) => {
    if (open && open.kind !== kind) close();
    open ||= { kind, lines: [] };
    open.lines.push(line);
  };
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at].replace(/\r$/, "");
    const fence = /^ {0,3}(`{3,}|~{3,})([^`]*)$/.exec(line);
    const heading = /^(#{1,6}) +(.+)$/.exec(line);
    const item = /^(\s*)([-*+]|\d{1,3}[.)]) +(.*)$/.exec(line);
    if (fence) {
      close();
      const code = [];
      const ends = (other) => other.trim().startsWith(fence[1]) && other.trim().replaceAll(fence[1][0], "") === "";
      for (at += 1; at < lines.length && !ends(lines[at]); at += 1) code.push(lines[at]);
      blocks.push(h("pre", { class: "code", tabindex: 0, "data-language": fence[2].trim().slice(0, 20) || null }, code.join("\n")));
    } else if (heading) {
      close();
      blocks.push(h("p", { class: "heading" }, inline(heading[2])));
    } else if (item) {
      close();
      const deep = Math.min(4, Math.floor(item[1].length / 2));
      const sign = /\d/.test(item[2]) ? item[2] : "\u2022";
      blocks.push(h("div", { class: `item deep-${deep}` }, h("span", { class: "sign" }, sign), h("span", {}, inline(item[3]))));
    } else if (/^\s*\|/.test(line)) add("table", line);
    else if (line.trim() === "") close();
    else add("text", line);
  }
  close();
  return blocks;
}

/** Cuts a text for reading: a long one ends after some lines, and a button shows the rest. */
function readable(text, make) {
  const lines = text.split("\n");
  if (lines.length <= MOST_LINES && text.length <= MOST_CHARACTERS) return make(text);
  const head = lines.slice(0, MOST_LINES).join("\n").slice(0, MOST_CHARACTERS);
  const box = h("div", { class: "cut" }, make(head));
  const button = h("button", { class: "more", type: "button", on: { click: () => {
    box.replaceChildren(...[make(text)].flat(Infinity));
    button.remove();
  } } }, `Show all ${plural(lines.length, "line")}`);
  return [box, button];
}

const proseBlock = (text) => h("div", { class: "prose" }, readable(text, prose));
const plainBlock = (text, attributes) =>
  readable(text, (part) => h("pre", { tabindex: 0, ...attributes }, part));

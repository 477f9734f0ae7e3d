// Text of messages: Markdown, made of elements and text nodes. Only addresses of the web become links.

const MOST_LINES = 120;
const MOST_CHARACTERS = 12000;
const MOST_DEEP = 6;

const INLINE = /(`+)(?!`)([^\n]*?[^`\n])\1(?!`)|\*\*(?=\S)([^\n]{0,2000}?\S)\*\*|__(?=\S)([^\n_]{1,2000})__(?!\w)|(?<![\w*])\*(?=[^\s*])([^\n*]{1,1000})\*(?!\w)|(?<!\w)_(?=[^\s_])([^\n_]{1,1000})_(?!\w)|~~(?=\S)([^\n~]{1,1000})~~|!?\[([^\]\n]{0,500})\]\(\s*<?([^\s)>]{1,2000})>?[^)\n]{0,200}\)|<?(https?:\/\/[^\s<>"'`)\]]{2,2000})>?/g;

/** Code, weights, links in a line or paragraph. */
function inline(text, deep = 0) {
  if (deep > MOST_DEEP || text.length > 20000) return [text];
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    const [all, , code, bold, strong, italic, slanted, struck, label, target, bare] = found;
    let made;
    if (code !== undefined) made = h("code", {}, code);
    else if (bold || strong) made = h("strong", {}, inline(bold || strong, deep + 1));
    else if (italic || slanted) made = h("em", {}, inline(italic || slanted, deep + 1));
    else if (struck) made = h("s", {}, inline(struck, deep + 1));
    else if (target !== undefined) made = linked(label || target, target, deep) || all;
    else made = linked(bare.replace(/[.,;:!?]+$/, ""), bare.replace(/[.,;:!?]+$/, ""), deep);
    parts.push(text.slice(at, found.index), made);
    at = found.index + (bare ? all.replace(/[.,;:!?]+$/, "").length : all.length);
  }
  parts.push(text.slice(at));
  return parts;
}

/** A link into the web, which says where it leads; `null` for anything else. */
function linked(label, target, deep) {
  if (!/^https?:\/\//i.test(target)) return null;
  let url;
  try { url = new URL(target); } catch { return null; }
  const host = label.includes(url.host) ? null : h("small", { class: "host" }, ` (${url.host})`);
  return [h("a", { href: url.href, rel: "noreferrer noopener", target: "_blank" }, label === target ? label : inline(label, deep + 2)), host];
}

const FENCE = /^(\s*)(`{3,}|~{3,})([^`]*)$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+(.*)|)$/;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

/** A text as paragraphs, headings, lists, quotes, tables and code. */
const prose = (text) => blocksOf(text.replaceAll("\r\n", "\n").split("\n"), 0);

function blocksOf(lines, deep) {
  if (deep > MOST_DEEP) return [h("p", {}, lines.join("\n"))];
  const blocks = [];
  let paragraph = [];
  const close = () => {
    if (paragraph.length) blocks.push(h("p", {}, inline(paragraph.join("\n"))));
    paragraph = [];
  };
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = /^ {0,3}(#{1,6}) +(.+?)(?: +#+)?$/.exec(line);
    const block = fence ? fencedAt : heading ? null : RULE.test(line) ? ruleAt : /^ {0,3}>/.test(line) ? quoteAt
      : ITEM.test(line) && (!paragraph.length || !/^\s*\d/.test(line) || /^\s*1[.)]/.test(line)) ? listAt
        : line.includes("|") && TABLE_RULE.test(lines[at + 1] || "") && lines[at + 1].includes("-") && lines[at + 1].includes("|") ? tableAt : undefined;
    if (block) {
      close();
      const [made, next] = block(lines, at, deep);
      blocks.push(made);
      at = next;
      continue;
    }
    if (heading) {
      close();
      blocks.push(h("p", { class: `heading level-${heading[1].length}` }, inline(heading[2])));
    } else if (line.trim() === "") close();
    else paragraph.push(line);
    at += 1;
  }
  close();
  return blocks;
}

const ruleAt = (_lines, at) => [h("hr"), at + 1];

function fencedAt(lines, at) {
  const [, indent, sign, about] = FENCE.exec(lines[at]);
  const code = [];
  const ends = (line) => line.trim().startsWith(sign) && line.trim().replaceAll(sign[0], "") === "";
  let next = at + 1;
  for (; next < lines.length && !ends(lines[next]); next += 1) {
    const line = lines[next];
    code.push(line.startsWith(indent) ? line.slice(indent.length) : line.trimStart());
  }
  return [codeBlock(code.join("\n"), about.trim().split(/[\s{,]/)[0].slice(0, 20)), next + 1];
}

function quoteAt(lines, at, deep) {
  const inner = [];
  let next = at;
  for (; next < lines.length && /^ {0,3}>/.test(lines[next]); next += 1) inner.push(lines[next].replace(/^ {0,3}> ?/, ""));
  return [h("blockquote", {}, blocksOf(inner, deep + 1)), next];
}

function listAt(lines, at, deep) {
  const [, indent, sign] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(sign);
  const items = [];
  let next = at;
  while (next < lines.length) {
    const found = ITEM.exec(lines[next]);
    if (!found || found[1].length !== indent.length || /\d/.test(found[2]) !== ordered || RULE.test(lines[next])) break;
    const inner = [found[3] || ""];
    next += 1;
    for (; next < lines.length; next += 1) {
      const line = lines[next];
      const depth = line.search(/\S/);
      if (depth < 0 ? !continues(lines, next, indent.length) : depth <= indent.length) break;
      inner.push(line.slice(Math.min(Math.max(depth, 0), indent.length + found[2].length + 1)));
    }
    items.push(inner);
  }
  const item = (inner) => {
    const task = /^\[([ xX])\]\s+/.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(task[0].length);
    const content = blocksOf(inner, deep + 1);
    return h("li", { class: task && "task" }, task && h("span", { class: "box", role: "img", "aria-label": task[1] === " " ? "to do" : "done" }, task[1] === " " ? "\u2610" : "\u2611"), content);
  };
  return [h(ordered ? "ol" : "ul", { start: ordered && Number.parseInt(sign, 10) !== 1 ? Number.parseInt(sign, 10) : null }, items.map(item)), next];
}

/** Whether an item goes on behind an empty line. */
function continues(lines, at, indent) {
  for (let next = at + 1; next < lines.length; next += 1) {
    const depth = lines[next].search(/\S/);
    if (depth >= 0) return depth > indent;
  }
  return false;
}

function tableAt(lines, at) {
  const cells = (line) => line.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
  const sides = cells(lines[at + 1]).map((rule) => (/^:-+:$/.test(rule) ? "mid" : /-:$/.test(rule) ? "end" : null));
  const row = (tag, line) => h("tr", {}, cells(line).slice(0, 60).map((cell, column) => h(tag, { class: sides[column] }, inline(cell))));
  let next = at + 2;
  const rows = [];
  for (; next < lines.length && lines[next].includes("|") && lines[next].trim() !== ""; next += 1) rows.push(row("td", lines[next]));
  return [h("div", { class: "table-box", tabindex: 0, role: "group", "aria-label": "Table" }, h("table", {}, h("thead", {}, row("th", lines[at])), h("tbody", {}, rows))), next];
}

/** The end of a text: some lines, as far as they are short. */
const endOfText = (text, most) => text.slice(-MOST_CHARACTERS).split("\n").slice(-most).join("\n");

/** Cuts a text for reading: a long one ends after some lines, or begins before its last ones, and a button shows the rest. */
function readable(text, make, most = MOST_LINES, atEnd = false) {
  const lines = countLines(text);
  if (lines <= most && text.length <= MOST_CHARACTERS) return make(text);
  const part = atEnd ? endOfText(text, most) : text.slice(0, MOST_CHARACTERS).split("\n").slice(0, most).join("\n");
  const box = h("div", { class: "cut" }, make(part));
  const button = h("button", { class: "more", type: "button", on: { click: () => box.showAll() } }, lines > 1 ? `Show all ${plural(lines, "line")}` : `Show all ${bytes(text.length)}`);
  box.showAll = () => {
    box.replaceChildren(...[make(text)].flat(Infinity));
    button.remove();
    box.showAll = null;
  };
  box.words = () => text;
  return atEnd ? [button, box] : [box, button];
}

const proseBlock = (text) => h("div", { class: "prose" }, readable(text, prose));
const plainBlock = (text, attributes = {}, most = MOST_LINES, atEnd = false) =>
  readable(text, (part) => h("pre", { tabindex: 0, role: "group", "aria-label": "Text", ...attributes }, terminal(part)), most, atEnd);

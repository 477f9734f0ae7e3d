// Colours of code and of terminals, as elements around text nodes.

const MOST_COLOURED = 24000;

const WORDS = {
  c: "abstract as async await bool boolean break case catch char class const continue crate default defer delete do double dyn else enum export extends extern false final finally float fn for from func function go if impl implements import in instanceof int interface internal let long loop match mod module move mut namespace new nil null of operator override package private protected pub public readonly ref return self Self short signed sizeof static struct super switch template this throw throws trait true try type typedef typeof undefined union unsafe unsigned use using var virtual void volatile where while with yield",
  py: "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield self match case end then do begin rescue module require elsif unless nil true false puts",
  sh: "if then else elif fi for while until do done case esac in function return local export set unset exit cd echo source true false test sudo",
  sql: "select from where and or not null insert into values update set delete create table index view drop alter join left right inner outer on group by order limit as distinct union all primary key foreign references having count sum case when then else end is like in exists",
  data: "true false null yes no",
};

const LANGUAGES = {
  c: "rs rust js mjs cjs jsx ts tsx javascript typescript java c h cc cpp hpp cs csharp go golang swift kt kotlin scala dart php zig",
  py: "py python rb ruby lua elixir ex r",
  sh: "sh bash zsh shell console fish dockerfile makefile make ps1",
  sql: "sql",
  data: "json jsonc json5 yaml yml toml ini cfg conf xml html css scss svg vue",
};

const family = new Map();
for (const [name, list] of Object.entries(LANGUAGES)) for (const word of list.split(" ")) family.set(word, name);
const words = new Map(Object.entries(WORDS).map(([name, list]) => [name, new Set(list.split(" "))]));

const languageOf = (path) => {
  const name = path.split("/").at(-1).toLowerCase();
  return family.get(name) || family.get(name.split(".").at(-1)) || null;
};

const TEXT = `"(?:\\\\.|[^"\\\\\\n]){0,4000}"?|'(?:\\\\.|[^'\\\\\\n]){0,400}'`;
const REST = "|(\\b\\d[\\d_a-fA-FxX.]*\\b)|([A-Za-z_$][\\w$]*)";
const LEXERS = {
  c: new RegExp(`(//[^\\n]*|/\\*[^]*?(?:\\*/|$))|(${TEXT}|\`[^\`]*\`?)${REST}`, "g"),
  py: new RegExp(`((?:^|(?<=\\s))#[^\\n]*|--[^\\n]*)|("""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${TEXT})${REST}`, "gm"),
  sh: new RegExp(`((?:^|(?<=\\s))#[^\\n]*)|(${TEXT})${REST}`, "gm"),
  sql: new RegExp(`(--[^\\n]*|/\\*[^]*?(?:\\*/|$))|(${TEXT})${REST}`, "g"),
  data: new RegExp(`((?:^|(?<=\\s))#[^\\n]*|<!--[^]*?(?:-->|$)|/\\*[^]*?(?:\\*/|$))|(${TEXT})${REST}`, "gm"),
};

/** Code with its comments, strings, numbers and words coloured. */
function coloured(text, kind) {
  if (!kind || text.length > MOST_COLOURED) return [text];
  const parts = [];
  const known = words.get(kind);
  let at = 0;
  for (const found of text.matchAll(LEXERS[kind])) {
    const [all, comment, string, number, word] = found;
    const style = comment ? "c-comment" : string ? "c-string" : number ? "c-number" : known.has(kind === "sql" ? word.toLowerCase() : word) ? "c-word" : null;
    if (!style) continue;
    if (found.index > at) parts.push(text.slice(at, found.index));
    parts.push(h("span", { class: style }, all));
    at = found.index + all.length;
  }
  parts.push(text.slice(at));
  return parts;
}

/** Code to look at, with a button that copies it. */
function codeBlock(text, language, attributes = {}) {
  const kind = family.get((language || "").toLowerCase()) || null;
  return h("div", { class: "code-box" },
    h("pre", { class: "code", tabindex: 0, role: "group", "aria-label": language ? `Code: ${language}` : "Code", "data-language": language || null, ...attributes }, coloured(text, kind)),
    copyButton("Copy", text, "Copy code"));
}

const ESCAPE = /\u001b(?:\[([0-9;:]{0,60})([@-~])|\][^\u0007\u001b]{0,2000}(?:\u0007|\u001b\\)?|[@-Z\\^_])/g;

const hasEscapes = (text) => text.includes("\u001b");

/** What stands in a line at its end: `\r` goes back to its beginning, `\b` takes a character back. */
function overwritten(/** @type {string} */ text) {
  if (!/[\r\b]/.test(text)) return text;
  let plain = text.replace(/\r+(?=\n|$)/g, "").replace(/[^\n]*\r(?!\n)/g, "");
  while (/[^\n\x08]\x08/.test(plain)) plain = plain.replace(/[^\n\x08]\x08/g, "");
  return plain.replaceAll("\b", "");
}

/** Output of a terminal: colours and weights become elements, other sequences vanish. */
function terminal(/** @type {string} */ output) {
  const text = overwritten(output);
  if (!hasEscapes(text)) return [text];
  const parts = [];
  let style = { colour: null, marks: new Set() };
  let at = 0;
  const put = (piece) => {
    if (!piece) return;
    const names = [style.colour, ...style.marks].filter(Boolean).join(" ");
    parts.push(names ? h("span", { class: names }, piece) : piece);
  };
  for (const found of text.matchAll(ESCAPE)) {
    put(text.slice(at, found.index));
    at = found.index + found[0].length;
    if (found[2] === "m") style = styled(style, found[1]);
    if (parts.length > 4000) break;
  }
  put(text.slice(at));
  return parts;
}

const MARKS = { 1: "a-bold", 2: "a-faint", 3: "a-italic", 4: "a-under", 7: "a-turned", 9: "a-struck" };

function styled({ colour, marks }, sequence) {
  const codes = sequence.split(/[;:]/).map(Number);
  marks = new Set(marks);
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 0) { colour = null; marks.clear(); }
    else if (MARKS[code]) marks.add(MARKS[code]);
    else if (code === 22) { marks.delete("a-bold"); marks.delete("a-faint"); }
    else if (MARKS[code - 20]) marks.delete(MARKS[code - 20]);
    else if (code >= 30 && code < 38) colour = `a-${code - 30}`;
    else if (code >= 90 && code < 98) colour = `a-${code - 90}`;
    else if (code === 39) colour = null;
    else if (code === 38 || code === 48) {
      const nearest = codes[at + 1] === 5 ? ofPalette(codes[at + 2]) : ofRgb(codes[at + 2], codes[at + 3], codes[at + 4]);
      if (code === 38) colour = nearest;
      at += codes[at + 1] === 5 ? 2 : 4;
    }
  }
  return { colour, marks };
}

const ofPalette = (n) => {
  if (n < 16) return `a-${n % 8}`;
  if (n >= 232) return n < 244 ? "a-0" : null;
  const cell = n - 16;
  return ofRgb(Math.floor(cell / 36) * 51, (Math.floor(cell / 6) % 6) * 51, (cell % 6) * 51);
};

/** The nearest of eight colours, so that nothing is painted as its ground. */
function ofRgb(red = 0, green = 0, blue = 0) {
  const high = Math.max(red, green, blue);
  const bit = (n) => (n > high * 0.66 && high > 60 ? 1 : 0);
  const index = bit(red) + 2 * bit(green) + 4 * bit(blue);
  return index === 7 ? null : `a-${index}`;
}

// Search over everything: messages, files, entries and names of turns, a slice of time after the other.

const MOST_HITS = 300;
const SLICE_MS = 12;

const searchable = { m: new Map(), x: new Map() };

function said(kind, number) {
  const known = searchable[kind];
  if (!known.has(number)) {
    const value = kind === "m" ? messageAt(number) : textAt(number);
    const text = kind === "x" ? (typeof value === "string" ? value : "") : [value.thinking, value.text, ...(value.calls || []).map(([, name, input]) => `${name} ${unescaped(input)}`), ...(value.results || []).map(([, result]) => result)].filter(Boolean).join("\n");
    known.set(number, { text, lower: text.toLowerCase() });
  }
  return known.get(number);
}

/** The strings in the arguments of a call as they are said. */
function unescaped(input) {
  const value = valueOf(input);
  return value ? Object.values(value).map((field) => (typeof field === "string" ? field : JSON.stringify(field))).join("\n") : input;
}

let running = 0;

/** Shows hits as they are found; another search ends this one. */
function searchView(query) {
  running += 1;
  const mine = running;
  const wanted = query.toLowerCase();
  const count = h("p", { class: "facts", role: "status" }, "Searching\u2026");
  const hits = h("div", { class: "hits" });
  const view = h("article", { class: "turn" }, h("header", { class: "turn-head" }, h("h2", {}, "\u201c", query, "\u201d"), count), hits);
  const work = [...turns.keys()].map((number) => ["t", number]).concat([...raw.m.keys()].map((number) => ["m", number]), [...raw.x.keys()].map((number) => ["x", number]));
  let at = 0;
  let found = 0;
  const slice = () => {
    if (mine !== running) return;
    const until = performance.now() + SLICE_MS;
    for (; at < work.length && performance.now() < until && found < MOST_HITS; at += 1) {
      const [kind, number] = work[at];
      const { text, lower } = kind === "t" ? { text: turns[number].message, lower: turns[number].message.toLowerCase() } : said(kind, number);
      const place = lower.indexOf(wanted);
      if (place < 0) continue;
      found += 1;
      hits.append(hitBlock(kind, number, text, place, query.length));
    }
    const isDone = at >= work.length || found >= MOST_HITS;
    count.textContent = `${found >= MOST_HITS ? `the first ${MOST_HITS}` : found} ${found === 1 ? "place" : "places"}${isDone ? "" : ", searching\u2026"}`;
    view.dataset.done = String(isDone);
    if (!isDone) setTimeout(slice);
  };
  setTimeout(slice);
  return view;
}

function hitBlock(kind, number, text, place, length) {
  const where = kind === "t" ? { turn: number, where: "title" } : born[kind].get(number) || { turn: 0, where: "" };
  const branch = branchWith(where.turn);
  const from = Math.max(0, place - 80);
  const excerpt = [from > 0 && "\u2026", text.slice(from, place), h("mark", {}, text.slice(place, place + length)), text.slice(place + length, place + length + 120)];
  const role = kind === "m" ? NAMES[messageAt(number).role] : where.where;
  const target = hashOf(branch, where.turn) + (kind === "m" ? `/m${number}` : "");
  return h("a", { class: `hit ${color(branch)}`, href: target }, h("b", {}, `Turn ${turns[where.turn].turn}`), h("small", {}, branches.length > 1 && `${branch.name} \u00b7 `, role), h("span", {}, excerpt));
}

// Search over everything: messages, files, entries and titles of turns, a slice of time after the other.

const MOST_HITS = 400;

const search = { running: 0, words: "", kind: "all", hits: /** @type {any[]} */ ([]), at: -1 };

/** By kind: the turn in which each message and each text came first, or -1; made by the first search. */
let born = null;

async function findBorn() {
  const first = { m: new Int32Array(count("m")).fill(-1), x: new Int32Array(count("x")).fill(-1) };
  const slice = new Slice();
  for (let index = 0; index < turns.length; index += 1) {
    for (const [kind, number] of broughtBy(turns[index])) if (first[kind][number] < 0) first[kind][number] = index;
    if (slice.over()) await slice.rest();
  }
  born = first;
}

/** The messages and texts that a turn brought: kind, number, and where it stands. */
function* broughtBy(turn) {
  const { lists = {}, files = [], entries = [] } = turn.change || {};
  for (const section in lists) {
    const kind = isConversation(section) ? "m" : "x";
    for (const [, , added] of lists[section]) for (const number of added) yield [kind, number, section];
  }
  for (const [path, , , number] of files) if (number !== undefined) yield ["x", number, `${FILES}/${path}`];
  for (const [section, key, number] of entries) if (number !== null) yield ["x", number, key ? `${section}/${key}` : section];
}

const whereIs = (kind, number, turn) => [...broughtBy(turns[turn])].find(([one, other]) => one === kind && other === number)[2];

/** The strings in the arguments of a call as they are said. */
function unescaped(input) {
  const value = valueOf(input);
  return value ? Object.values(value).map((field) => (typeof field === "string" ? field : JSON.stringify(field))).join("\n") : input;
}

/** The parts of a line that are searched, by kind. */
function partsOf(kind, number) {
  if (kind === "x") return [["files", typeof textAt(number) === "string" ? textAt(number) : ""]];
  const message = messageAt(number);
  const own = message.role === "assistant" ? "answers" : message.prompt ? "prompts" : "other";
  return [[own, message.text || ""], ["thinking", message.thinking || ""], ...(message.calls || []).map(([, name, input]) => ["calls", `${name} ${unescaped(input)}`]), ...(message.results || []).map(([, words]) => ["results", words])];
}

/** Whether a line may hold the words: what JSON writes otherwise is not looked for in its raw form. */
function sieve(words) {
  if (/["\\<>&\u0000-\u001f\u2028\u2029]/.test(words)) return () => true;
  const pattern = new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
  return (line) => pattern.test(line);
}

const HIT_KINDS = [["all", "All"], ["prompts", "Prompts"], ["answers", "Answers"], ["thinking", "Thinking"], ["calls", "Calls"], ["results", "Results"], ["files", "Files"], ["other", "Other"]];

/** Shows hits as they are found, by turn; another search ends this one. */
function searchView(words) {
  search.running += 1;
  const mine = search.running;
  Object.assign(search, { words, hits: [], at: -1, kind: "all" });
  const count = h("p", { class: "facts", role: "status" }, "Searching\u2026");
  const chips = h("p", { class: "chips", role: "group", "aria-label": "Kinds of matches" });
  const hits = h("div", { class: "hits" });
  const view = h("article", { class: "page", "aria-label": `Search for ${words}` }, h("header", { class: "view-head" }, h("h2", {}, "\u201c", words, "\u201d"), count, chips), hits);
  const redraw = () => {
    hits.replaceChildren(...search.hits.filter((hit) => search.kind === "all" || hit.kind === search.kind).map(hitBlock));
    drawChips();
  };
  const drawChips = () => {
    const number = (name) => (name === "all" ? search.hits.length : search.hits.filter((hit) => hit.kind === name).length);
    chips.replaceChildren(...HIT_KINDS.filter(([name]) => number(name) > 0).map(([name, label]) => h("button", { type: "button", class: "chip", "aria-pressed": String(search.kind === name), on: { click: () => { search.kind = name; redraw(); } } }, label, h("small", {}, number(name)))));
  };
  const found = (hit) => {
    search.hits.push(hit);
    if (search.kind === "all" || search.kind === hit.kind) hits.append(hitBlock(hit));
  };
  searchAll(words, () => mine === search.running, found, (isDone) => {
    const many = search.hits.length >= MOST_HITS;
    count.textContent = `${many ? `the first ${MOST_HITS}` : search.hits.length} ${search.hits.length === 1 ? "match" : "matches"}${isDone ? "" : ", searching\u2026"}`;
    view.dataset.done = String(isDone);
    drawChips();
  });
  return view;
}

async function searchAll(words, goesOn, found, told) {
  const wanted = words.toLowerCase();
  const mayHold = sieve(words);
  await breathe();
  if (!born) await findBorn();
  const slice = new Slice();
  const titled = new Set();
  const look = (kind, number) => {
    if (!mayHold(lineOf(kind, number))) return;
    const turn = born[kind][number];
    if (turn < 0) return;
    for (const [part, words_] of partsOf(kind, number)) {
      const place = words_.toLowerCase().indexOf(wanted);
      if (place < 0) continue;
      titled.add(turn);
      found({ kind: part, line: kind, number, turn, where: whereIs(kind, number, turn), text: words_, place });
      if (search.hits.length >= MOST_HITS) return;
    }
  };
  for (const kind of ["m", "x"]) {
    for (let number = 0; number < count(kind) && search.hits.length < MOST_HITS; number += 1) {
      try {
        look(kind, number);
      } catch (reason) {
        if (!(reason instanceof Absent)) throw reason;
        await reason.come;
        number -= 1;
        continue;
      }
      if (!slice.over()) continue;
      told(false);
      await slice.rest();
      if (!goesOn()) return;
    }
  }
  for (let index = 0; index < turns.length; index += 1) {
    const { message } = turns[index];
    const place = message.toLowerCase().indexOf(wanted);
    if (place >= 0 && !titled.has(index) && search.hits.length < MOST_HITS) found({ kind: "other", line: "t", number: index, turn: index, where: "title", text: message, place });
    if (!slice.over()) continue;
    await slice.rest();
    if (!goesOn()) return;
  }
  told(true);
}

const hitHash = (hit) => `${hashOf(branchWith(hit.turn), hit.turn)}${hit.line === "m" ? `/m${hit.number}` : ""}?w=${encodeURIComponent(search.words)}`;

function hitBlock(hit) {
  const { turn, place } = hit;
  const branch = branchWith(turn);
  const from = Math.max(0, place - 80);
  const end = place + search.words.length;
  const excerpt = [from > 0 && "\u2026", hit.text.slice(from, place), h("mark", {}, hit.text.slice(place, end)), hit.text.slice(end, end + 120)];
  const kind = HIT_KINDS.find(([name]) => name === hit.kind)[1].replace(/s$/, "");
  const about = hit.line === "x" ? hit.where : hit.line === "t" ? "Title" : kind;
  return h("a", { class: `hit ${color(branch)}`, href: hitHash(hit) }, h("b", {}, turns[turn].prompt !== undefined ? `Prompt ${turns[turn].prompt}` : `Turn ${turns[turn].turn}`), h("small", {}, branches.length > 1 && `${branch.name} \u00b7 `, about), h("span", {}, excerpt));
}

/** Goes to the next or previous match. */
function stepHit(by) {
  const hits = search.hits.filter((hit) => search.kind === "all" || hit.kind === search.kind);
  if (!hits.length) return;
  search.at = (search.at + by + hits.length) % hits.length;
  go(hitHash(hits[search.at]));
  say(`Match ${search.at + 1} of ${hits.length}`);
}

/** Opens what holds the words, marks them, and brings the first into the middle. */
function markWords(node, words) {
  const wanted = words.toLowerCase();
  for (let round = 0; round < 4; round += 1) {
    for (const box of node.querySelectorAll("details, .cut")) {
      if (!box.words || !box.words().toLowerCase().includes(wanted) && !unescaped(box.words()).toLowerCase().includes(wanted)) continue;
      box.unfold?.();
      box.showAll?.();
      if (box.tagName === "DETAILS") box.open = true;
    }
  }
  const ranges = rangesOf(node, wanted);
  const first = ranges[0];
  if (CSS.highlights) CSS.highlights.set("found", new Highlight(...ranges));
  for (let box = first?.startContainer.parentElement; box; box = box.parentElement) if (box instanceof HTMLDetailsElement) box.open = true;
  return first || null;
}

function rangesOf(node, wanted) {
  const nodes = [];
  let all = "";
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  for (let at = /** @type {Text} */ (walker.nextNode()); at; at = /** @type {Text} */ (walker.nextNode())) {
    nodes.push([all.length, at]);
    all += at.data;
  }
  // Some letters are longer in lower case: then places would not fit.
  const lower = all.toLowerCase().length === all.length ? all.toLowerCase() : all;
  const ranges = [];
  let index = 0;
  for (let place = lower.indexOf(wanted); place >= 0 && ranges.length < 500; place = lower.indexOf(wanted, place + wanted.length)) {
    const range = new Range();
    const seek = (to) => { while (index + 1 < nodes.length && nodes[index + 1][0] <= to) index += 1; };
    seek(place);
    range.setStart(nodes[index][1], place - nodes[index][0]);
    seek(place + wanted.length - 1);
    range.setEnd(nodes[index][1], Math.min(place + wanted.length - nodes[index][0], nodes[index][1].length));
    ranges.push(range);
  }
  return ranges;
}

// Search over everything: hits as they come, and the way to each.

const MOST_HITS = 400;

const search = { running: 0, words: "", kind: "all", hits: /** @type {any[]} */ ([]), at: -1 };

/** The strings in the arguments of a call as they are said. */
function unescaped(input) {
  const value = valueOf(input);
  return value ? Object.values(value).map((field) => (typeof field === "string" ? field : JSON.stringify(field))).join("\n") : input;
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

const hitHash = (hit) => `${hashOf(branchWith(hit.turn), hit.turn)}${hit.line === "m" && hit.number !== null ? `/m${hit.number}` : ""}?w=${encodeURIComponent(search.words)}`;

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

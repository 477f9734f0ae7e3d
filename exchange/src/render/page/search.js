// Search over everything: hits as they come, and the way to each.

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
  const isShown = (hit) => search.kind === "all" || search.kind === hit.kind;
  const redraw = () => { hits.replaceChildren(...search.hits.filter(isShown).map(hitBlock)); drawChips(); };
  const drawChips = () => {
    const number = (name) => (name === "all" ? search.hits.length : search.hits.filter((hit) => hit.kind === name).length);
    chips.replaceChildren(...HIT_KINDS.filter(([name]) => number(name) > 0).map(([name, label]) => h("button", { type: "button", class: "chip", "aria-pressed": String(search.kind === name), on: { click: () => { search.kind = name; redraw(); } } }, label, h("small", {}, number(name)))));
  };
  const found = (hit) => { search.hits.push(hit); if (isShown(hit)) hits.append(hitBlock(hit)); };
  searchAll(words, () => mine === search.running, found, (isDone) => {
    const many = search.hits.length >= MOST_HITS;
    count.textContent = `${many ? `the first ${MOST_HITS}` : search.hits.length} ${search.hits.length === 1 ? "match" : "matches"}${isDone ? "" : ", searching\u2026"}`;
    view.dataset.done = String(isDone);
    drawChips();
  });
  return view;
}

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

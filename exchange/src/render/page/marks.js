// Hits of a search, the way from one to the next, and the words marked where they stand.

const MOST_HITS = 400;

const search = { running: 0, words: "", kind: "all", hits: /** @type {any[]} */ ([]), at: -1 };

/** The strings in the arguments of a call as they are said. */
function unescaped(input) {
  const value = valueOf(input);
  return value ? Object.values(value).map((field) => (typeof field === "string" ? field : JSON.stringify(field))).join("\n") : input;
}

const hitHash = (hit) => `${hashOf(branchWith(hit.turn), hit.turn)}${hit.line === "m" && hit.number !== null ? `/m${hit.number}` : ""}?w=${encodeURIComponent(search.words)}`;

/** Finds the words that brought us here, to go on to their next match. */
function findAgain(/** @type {string} */ words, by) {
  search.running += 1;
  const mine = search.running;
  Object.assign(search, { words, hits: [], at: -1, kind: "all" });
  searchAll(words, () => mine === search.running, (hit) => search.hits.push(hit), (isDone) => {
    if (!isDone || !search.hits.length) return;
    search.at = search.hits.findIndex((hit) => hit.turn === here.turn);
    stepHit(by);
  });
}

/** Goes to the next or previous match. */
function stepHit(by) {
  const words = decoded(location.hash.split("?w=")[1] ?? "");
  if (words && words !== search.words) return findAgain(words, by);
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

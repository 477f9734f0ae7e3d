// Addresses: `#overview`, `#read`, `#turn-8@branch/m9?w=word`, `#id-1f2e?w=word`, `#prompt-3`, `#diff-1..9`, `#compare`, `#charts@branch`, `#search=word`.

const view = byId("view");
const query = byId("query");

/** @type {{branch: Branch, turn: number, route: string, hash: string | null, shown: boolean}} */
const here = { branch: /** @type {any} */ (null), turn: 0, route: "", hash: null, shown: false };

const suffix = (branch) => (branch.index === 0 ? "" : `@${encodeURIComponent(branch.name)}`);
const hashOf = (branch, turn) => `#turn-${turns[turn].turn}${suffix(branch)}`;
const diffHash = (a, b) => `#diff-${turns[a.turn].turn}${suffix(a.branch)}..${turns[b.turn].turn}${suffix(b.branch)}`;

const branchWith = (turn) => (here.branch.places.has(turn) ? here.branch : branches[owner[turn]] || here.branch);

/** What the address keeps before the place: the key of an encrypted page, and nothing in others. */
let pageKey = "";
const plain = (/** @type {string} */ hash) => hash.replace(/^#key=[\w-]*&?/, "#");
const keyed = (/** @type {string} */ hash) => `#${pageKey}${plain(hash).slice(1)}`;
const hashNow = () => plain(location.hash);
const setHash = (/** @type {string} */ hash) => history.replaceState(null, "", keyed(hash));

/** Goes to an address, at once: the event of the browser comes later than the next key may. */
function go(hash) {
  location.hash = keyed(hash);
  route();
}

/** The same without an entry in the history: one press of a key is not a place to come back to. */
function slide(hash) {
  try {
    setHash(hash);
  } catch {
    // Browsers refuse many in a short time; the address is then an older one.
    here.hash = hash;
    return show(hash);
  }
  route();
}

const endOf = (branch) => ({ branch, turn: branch.line.at(-1) });

const openTurn = (branch, turn) => go(hashOf(branch, turn));

const SIDE = /^(\d+)(?:@(.+))?$/;

const decoded = (words) => {
  try { return decodeURIComponent(words); } catch { return null; }
};

const branchNamed = (name) => (name === undefined ? branches[0] : branches.find((other) => other.name === decoded(name)) ?? needOlder());

function sideOf(words) {
  const found = SIDE.exec(words);
  const branch = found && branchNamed(found[2]);
  if (branch && turns[branch.line[0]].turn > Number(found[1])) needOlder();
  return branch ? { branch, turn: turnNumbered(branch, Number(found[1])) } : null;
}

function promptOf(words) {
  const found = SIDE.exec(words);
  const branch = found && branchNamed(found[2]);
  const chapter = branch && chaptersOf(branch).find((one) => one.number === Number(found[1]));
  if (!chapter) needOlder();
  return chapter ? { branch, turn: chapter.turn } : null;
}

function route() {
  const hash = hashNow();
  if (pageKey && !location.hash.includes(pageKey)) setHash(hash);
  if (hash === here.hash) return;
  here.hash = hash;
  show(here.hash);
}

/** Shows what an address says, once what it says is there. */
const show = (hash) => whenThere(() => showNow(hash), () => here.hash === hash && showNow(hash));

function showNow(hash) {
  const [path, words] = hash.slice(1).split("?w=");
  const [address, message] = path.split("/m");
  const [, name, rest] = /^([a-z]*)[-=@]?(.*)$/.exec(address);
  const [range, file] = name === "diff" ? rest.split(":") : [""];
  const sides = range ? range.split("..").map(sideOf) : [];
  const place = name === "turn" ? sideOf(rest) : name === "prompt" ? promptOf(rest) : null;
  if (name === "id") {
    const turn = turns.findIndex(({ id }) => id.startsWith(rest));
    if (!(owner[turn] >= 0)) needOlder();
    else return slide(`${hashOf(branchWith(turn), turn)}${words ? `?w=${words}` : ""}`);
  }
  CSS.highlights?.delete("found");
  document.body.classList.remove("outlined");
  if (place) return showTurn(place, message, words && decoded(words));
  if (name === "read") return showTurn(endOf(branchNamed(rest || undefined) || here.branch), undefined, null, true);
  if (["diff", "compare", "search", "charts"].includes(name)) needScreens();
  if (sides.length === 2 && sides[0] && sides[1]) {
    move(sides[1]);
    showPage("diff", diffView(sides[0], sides[1], file === undefined ? null : decoded(file)));
    view.querySelector(".wanted")?.scrollIntoView();
  } else if (name === "compare") showPage("compare", compareView());
  else if (screenNamed(name)) showPage(name, screenNamed(name)(rest));
  else if (name === "search" && hash.slice(8)) {
    const wanted = decoded(hash.slice(8)) ?? hash.slice(8);
    if (query.value !== wanted) query.value = wanted;
    showPage("search", searchView(wanted));
  } else {
    const [page, make] = name === "charts" ? [name, chartsView] : ["overview", overviewView];
    const branch = (name === page && branchNamed(rest || undefined)) || here.branch;
    if (branch !== here.branch) move(endOf(branch));
    showPage(page, make(branch));
    foldOutline();
  }
}

/** Shows a page that is no part of the reader. */
function showPage(name, page) {
  closeReader();
  here.route = name;
  view.replaceChildren(page);
  view.scrollTop = 0;
  settle(page.querySelector("h2")?.textContent || "");
}

/** Shows a turn in the reader; with words, where they are said. */
function showTurn(place, message, words, end = false) {
  here.route = document.body.dataset.route = "read";
  if (reader && reader.kind === outline.kind && reader.branch === place.branch && reader.items.length && !reader.items.includes(place.turn)) chooseKind("all", false);
  move(place);
  if (!reader || reader.branch !== here.branch || reader.kind !== outline.kind) openReader(view, here.branch, shownTurns(here.branch));
  if (!reader.items.length) return settle("");
  blockNow(reader.items.includes(here.turn) ? here.turn : reader.items[0]);
  // What comes while the end is read must not move it away.
  reader.isEnd = end;
  const node = readTurn(here.turn, { end });
  const said = message && byId(`message-${message}`);
  const found = words ? markWords(said || node, words) || markWords(node, words) : null;
  drawReader();
  if (found) centre(found);
  else if (said) said.scrollIntoView({ block: "center" });
  drawReader();
  moved = view.scrollTop;
  clearTimeout(following);
  following = 0;
  settle(node.getAttribute("aria-label"));
}

function centre(range) {
  for (let round = 0; round < 2; round += 1) {
    const box = range.getBoundingClientRect();
    const frame = view.getBoundingClientRect();
    view.scrollTop += box.top - frame.top - frame.height / 2;
    range.startContainer.parentElement.closest("pre, .diff")?.scrollTo?.({ left: 0 });
    drawReader();
  }
}

/** Says what is shown now; the first time, that something is. */
function settle(name) {
  if (!here.shown) requestAnimationFrame(() => performance.mark("turntree-shown"));
  here.shown = true;
  document.body.classList.remove("blank");
  say(name);
  document.title = visible(name && name !== header.title ? `${name} \u00b7 ${header.title}` : header.title);
  document.body.dataset.route = here.route;
  drawBar();
}

function move({ branch, turn }) {
  storyOf(branch);
  const other = branch !== here.branch;
  Object.assign(here, { branch, turn });
  if (other) {
    outline.key = "";
    drawBranches();
    drawKinds();
  }
  revealRow(turn);
  drawOutline();
  markMap(branch, turn);
}

/** Shows only turns of a kind, here and in the outline. */
function chooseKind(kind, redraw = true) {
  outline.kind = kind;
  outline.key = "";
  document.body.dataset.kind = kind;
  drawKinds();
  if (!redraw) return;
  const items = shownTurns(here.branch);
  const place = here.branch.places.get(here.turn);
  here.turn = items.findLast((turn) => here.branch.places.get(turn) <= place) ?? items[0] ?? here.turn;
  here.hash = null;
  slide(hashOf(here.branch, here.turn));
}

// What the wheel does: the turn that is read is the one that the outline and the picture show.

let moved = 0;
let following = 0;
let resting = 0;

/** Pauses before the outline follows, and before the address does. */
const FOLLOW_MS = 80;
const REST_MS = 250;

function scrolled() {
  if (!reader) return;
  // What comes above the end may move the place, and is no hand.
  if (Math.abs(view.scrollTop - moved) >= 2 && !isAtEnd()) reader.isEnd = false;
  drawReader();
  if (reader.isEnd || Math.abs(view.scrollTop - moved) < 2) return;
  moved = view.scrollTop;
  following ||= setTimeout(follow, FOLLOW_MS);
}

function follow() {
  following = 0;
  const turn = reader && !reader.whole ? turnRead() : undefined;
  if (turn === undefined || turn === here.turn) return;
  move({ branch: here.branch, turn });
  clearTimeout(resting);
  resting = setTimeout(() => {
    if (!reader) return;
    try { setHash(hashOf(here.branch, here.turn)); } catch { return; }
    here.hash = hashNow();
    drawBar();
  }, REST_MS);
}

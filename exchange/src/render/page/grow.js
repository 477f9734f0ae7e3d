// A page that is served: how it begins, and how it goes on while others commit.

const ORIGIN = "Served by turntree view on this machine; nothing else is asked.";

/** Turns that are asked for at first, and then at once. */
const FIRST = 100;
const SOME = 5000;

/** As they come, turns are shown again once there are so many times more than were shown. */
const MORE = 4;

/** The longest that older turns wait until the browser has nothing else to do. */
const IDLE_MS = 500;

/** Pixels above the end of the story that still count as being at it. */
const AT_END = 80;

/** Ends of lines that the server is told, so that it leaves out what is here. */
const MOST_KNOWN = 150;

/** The session of this address; `null` for the list of all. */
const nameOfSession = () => (location.pathname.startsWith("/s/") ? decoded(location.pathname.slice(3)) ?? location.pathname.slice(3) : null);

// How things stand with the server, in the head of the page.

const state = h("p", { id: "state", role: "status" });

function sayState(/** @type {string} */ words, good = false) {
  state.dataset.good = String(good);
  if (state.textContent !== words) state.replaceChildren(visible(words));
}

function note(title, words) {
  // No frame of a session that is not there, and no search in it.
  document.body.classList.remove("blank");
  document.body.classList.add("listing");
  byId("find").hidden = true;
  if (!byId("title").firstChild) byId("title").append(h("a", { href: "/" }, "turntree"));
  view.replaceChildren(h("article", { class: "page" }, h("header", { class: "view-head" }, h("h2", {}, title)), h("p", {}, words)));
  performance.mark("turntree-shown");
}

const askForKey = () => note("This page needs its key", "Open the address that turntree view has printed. It has the key behind the #, and this tab does not know it.");

/** Says why nothing can be shown. */
const sayRefusal = (/** @type {any} */ error) => (error.status === 401 ? askForKey() : note("This cannot be shown", error.message));

let begun = false;

/** Waits until what is shown has its texts, and the browser time: it and the server are at work on the same processors. */
async function atRest() {
  // Texts that do not come are no reason to say nothing of that.
  for (let round = 0; coming && round < 4; round += 1) await Promise.race([coming, pause(IDLE_MS)]);
  await new Promise((kept) => (window.requestIdleCallback ? requestIdleCallback(kept, { timeout: IDLE_MS }) : setTimeout(kept)));
}

/** Reads what is new of the session, the newest first: shows the beginning, and more now and then while older turns come. */
async function readStory() {
  const had = turns.length;
  const before = JSON.stringify(told);
  // Where an answer ended early, what is older than that is not here.
  const known = older ? "" : [...ends].slice(-MOST_KNOWN).join();
  let shown = had;
  const slice = new Slice();
  for (let from = "", most = FIRST; from !== null; most = SOME) {
    const answer = await ask(`/api/story?session=${encodeURIComponent(nameOfSession())}&known=${known}&from=${from}&n=${most}`);
    // What is told of a page that has the story is newer than all of it.
    if (!ends.size) waitForOlder();
    from = null;
    for await (const line of eachLine(answer)) {
      if (line[0] === "n") from = JSON.parse(line.slice(1)).join();
      else feed(line);
      if (slice.over()) await slice.rest();
    }
    if (from === null) break;
    if (turns.length >= MORE * shown && numbers.t.has(told.branches[0].tip)) {
      shown = turns.length;
      await showStory();
    }
    await atRest();
    // An address may lead to what is still to come.
    if (!begun || view.firstChild) continue;
    view.append(noteOlder());
    document.body.classList.remove("blank");
  }
  const waited = older;
  older = null;
  if (!turns.length) return note(told.title, "Nothing was snapshotted in this session yet.");
  if (!begun || turns.length > had || JSON.stringify(told) !== before) await showStory();
  waited?.kept();
}

async function showStory() {
  settleHead();
  if (begun) await grow();
  else {
    begun = true;
    document.body.classList.remove("listing");
    byId("find").hidden = false;
    await start();
  }
  if (branches.length < 2 || older) return;
  if (!header.compare || here.route === "compare") compareBranches().catch((error) => sayState(error.message));
  if (!header.explorations?.length || here.route === "explore") readExplorations().catch((error) => sayState(error.message));
}

/** Explorations of the session, with the state of each strategy. */
async function readExplorations() {
  header.explorations = await (await ask(`/api/explorations?session=${encodeURIComponent(nameOfSession())}`)).json();
  drawBar();
  if (here.route === "explore") screens.explored();
}

/** The branches side by side are counted by the server, when the story is there. */
async function compareBranches() {
  const answer = await ask(`/api/compare?session=${encodeURIComponent(nameOfSession())}`);
  header.compare = await answer.json();
  drawBar();
  if (here.route === "compare") showPage("compare", compareView());
}

/** Shows new turns. A reader in the middle stays there; a reader at the end follows. */
async function grow() {
  const grown = await setBranches(here.branch.name);
  const isFollowed = reader && (reader.isEnd || view.scrollTop + view.clientHeight >= view.scrollHeight - AT_END);
  // The reader may have switched to another branch by now.
  here.branch = branches.find((branch) => branch.name === here.branch.name) || grown;
  if (here.route === "overview") here.turn = here.branch.line.at(-1);
  else if (!here.branch.places.has(here.turn)) here.turn = turnNumbered(here.branch, turns[here.turn].turn);
  outline.key = "";
  map.at = null;
  drawAbout();
  drawBranches();
  drawKinds();
  await breathe();
  drawMap();
  await breathe();
  if (reader) growReader(isFollowed);
  move(here);
  if (here.route === "overview") {
    const top = view.scrollTop;
    whenThere(() => {
      if (here.route !== "overview") return;
      showPage("overview", overviewView(here.branch));
      view.scrollTop = top;
    });
    foldOutline();
  }
  drawBar();
}

/** Gives the reader the turns that have come, and takes those away that are no more. */
function growReader(isFollowed) {
  const items = shownTurns(here.branch);
  if (!reader.items.length || !items.length) {
    closeReader();
    here.hash = null;
    return slide(hashOf(here.branch, here.turn));
  }
  const top = view.scrollTop - reader.box.offsetTop;
  const first = itemAt(Math.max(0, top));
  const [anchor, below] = [reader.items[first], top - reader.tops[first]];
  const heights = new Float64Array(items.length).fill(GUESS);
  const start = items.indexOf(reader.items[0]);
  for (let at = 0; start >= 0 && at < reader.items.length && items[start + at] === reader.items[at]; at += 1) heights[start + at] = reader.heights[at];
  for (const [turn, node] of reader.shown) {
    if (here.branch.places.has(turn)) continue;
    node.remove();
    reader.shown.delete(turn);
  }
  Object.assign(reader, { branch: here.branch, items, heights, tops: new Float64Array(items.length + 1), first: 0, last: -1 });
  sumTops();
  if (!isFollowed) {
    // What is older stands above what is read.
    const at = items.indexOf(anchor);
    reader.box.style.height = `${reader.tops[items.length]}px`;
    if (at >= 0) view.scrollTop = moved = reader.box.offsetTop + reader.tops[at] + below;
    return drawReader();
  }
  here.turn = items.at(-1);
  reader.isEnd = true;
  readTurn(here.turn, { end: true });
  moved = view.scrollTop;
  if (here.route !== "read" || here.hash?.startsWith("#read")) return;
  setHash(hashOf(here.branch, here.turn));
  here.hash = hashNow();
}

/** Waits until this page is looked at: browsers give a server few connections. */
const looked = () => new Promise((kept) => {
  if (!document.hidden) return kept(undefined);
  document.addEventListener("visibilitychange", () => kept(looked()), { once: true });
});

/** Listens to what changes in the store; where the server is away, until it is there again. */
async function listen(/** @type {(sessions: string[] | null) => Promise<void>} */ changed) {
  for (let wait = 100; ; wait = Math.min(2000, 2 * wait)) {
    await looked();
    const stop = new AbortController();
    const hide = () => document.hidden && stop.abort();
    document.addEventListener("visibilitychange", hide);
    try {
      for await (const line of eachLine(await ask("/api/events", stop.signal))) {
        await changed(JSON.parse(line).sessions);
        sayState("live", true);
        wait = 100;
      }
      // An answer without an end has one when its server ends.
      throw new Error();
    } catch (error) {
      if (error instanceof Refused) sayState(error.status === 401 ? "not connected: turntree view was started anew; open the address that it printed" : error.message);
      else if (error.name !== "AbortError") sayState("not connected: turntree view has ended");
    }
    document.removeEventListener("visibilitychange", hide);
    await pause(wait);
  }
}

/** Keys of every page that is served. */
function keyOfAll(/** @type {KeyboardEvent} */ event) {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.key.toLowerCase() !== "k") return;
  event.preventDefault();
  if (!key || document.querySelector("dialog[open]")) return;
  whenThere(() => {
    needScreens();
    screens.palette();
  });
}

const toNeighbour = (/** @type {number} */ by) => whenThere(() => {
  needScreens();
  screens.neighbour(by).catch((error) => sayState(error.message));
});

async function begin() {
  byId("top").append(state);
  document.addEventListener("keydown", keyOfAll);
  const mark = document.querySelector(".mark");
  const home = h("a", { href: "/", "aria-label": "All sessions", title: "All sessions" });
  mark.before(home);
  home.append(mark);
  const session = nameOfSession();
  if (session === null) screensCome = fetchScreens();
  await findKey();
  if (!key) return askForKey();
  if (session === null) {
    const isList = location.pathname === "/";
    const first = isList && !location.search ? ask("/api/sessions?first=true") : null;
    // Who shows them hears of it.
    first?.catch(() => {});
    await screensCome;
    return isList ? screens.sessions(first) : screens.store(location.pathname.slice(1));
  }
  KEYS.push(["]  [", "next session, previous session", ["]", "["], (key) => toNeighbour(key === "]" ? 1 : -1)], ["Ctrl-K", "search all sessions", [], () => {}]);
  const beside = h("aside", { id: "beside", "aria-label": "Sessions" });
  byId("side").before(beside);
  let redrawBeside = () => {};
  const changed = async (sessions) => {
    redrawBeside();
    if (!sessions || sessions.includes(session)) await readStory();
  };
  try {
    await readStory();
  } catch (error) {
    if (begun) sayState(error.message);
    else sayRefusal(error);
  }
  await atRest();
  whenThere(() => {
    needScreens();
    redrawBeside = screens.beside(beside);
  });
  listen(changed);
}

begin();

// All sessions of a store, with search and filters, and hits of everything that was ever said.

const shelf = { rows: /** @type {any[]} */ ([]), total: 0, all: 0, counts: /** @type {any} */ ({}), agents: /** @type {any[]} */ ([]), labels: /** @type {any[]} */ ([]), agent: "", label: "", live: false, undecided: false, expiring: false, secrets: false, waits: 0, next: /** @type {number | null} */ (null), asked: 0, words: "", ranking: false };

/** What waits for a decision: a filter, and its name. */
const WAITING = [["undecided", "Conflicts to decide"], ["expiring", "Forgotten within a week"], ["secrets", "Secrets found"]];

/** Characters from which everything is searched, and the pause in typing before that. */
const LEAST_WORDS = 3;
const TYPED_MS = 120;
const SEARCH_MS = 350;
const MOST_PLACES = 100;

/** Sessions that are summed up whenever the list is opened; of more, the page of usage says it. */
const MOST_SUMMED = 2000;

/** The time after which text is looked for, too. */
const LATE_MS = 500;

const addressOf = (session) => `/s/${encodeURIComponent(session)}`;

/** The time since a moment, as people say it. */
function ago(/** @type {string} */ time) {
  const ms = Math.max(0, Date.now() - Date.parse(time));
  const steps = [[60e3, "now", 0], [3600e3, "min", 60e3], [86400e3, "h", 3600e3], [30 * 86400e3, "d", 86400e3]];
  const found = steps.find(([most]) => ms < Number(most));
  if (!found) return dayOf(Date.parse(time));
  return found[2] ? `${Math.floor(ms / Number(found[2]))} ${found[1]}` : String(found[1]);
}

/** The heading that a session stands under: the day, or the month of one that is older. */
function dayName(/** @type {string} */ time) {
  const at = new Date(time);
  const days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(time).setHours(0, 0, 0, 0)) / 86400e3);
  return days <= 0 ? "Today" : days === 1 ? "Yesterday" : at.toLocaleDateString("en", { month: "long", year: "numeric" });
}

// What the newest turns of a session did, how they ended, and what they cost: asked for when a row is there.

const KINDS_BY_LETTER = { p: "prompt", x: "error", v: "passed", e: "edit", ".": "other" };

/** Briefs that were read, by session, each with the state of the session that it is of. */
const briefs = new Map();

/** The longest wait for briefs of sessions that change. */
const BRIEF_MS = 1000;

const stateOf = (one) => `${one.time} ${one.turns}`;

/** Turns as bars, the prompts highest. */
function sparkOf({ kinds, failed_calls: failed }) {
  const bars = Object.entries(KINDS_BY_LETTER).map(([letter, kind]) => {
    const d = [...kinds].map((one, at) => (one === letter ? `M${at * 2.5 + 1} 15v${-HEIGHTS[kind]}` : "")).join("");
    return d && s("path", { class: `bars ${kind}`, "stroke-width": 1.6, d });
  });
  const name = [...Object.entries({ p: "prompt", e: "edit" })].map(([letter, kind]) => plural(kinds.split(letter).length - 1, kind)).concat(failed ? [plural(failed, "failed call")] : []);
  return s("svg", { width: 100, height: 15, viewBox: "0 0 100 15", role: "img", "aria-label": name.join(", ") }, s("title", {}, name.join(", ")), bars);
}

function endOfBrief({ passed, interrupted }) {
  if (interrupted) return h("span", { class: "turned", title: "The user stopped the agent last" }, "stopped");
  return passed !== null && h("span", { class: passed ? "passed" : "failed", title: "The last checks or tests" }, passed ? "\u2713 passed" : "\u2717 failed");
}

const costOf = ({ cost, tokens, whole }) => (cost > 0 ? dollars(cost) + (whole ? "" : "+") : tokens > 0 && `${short(tokens)} tok`);

/** Puts the brief of a session into its row. */
function fillBrief(row, brief) {
  const put = (name, what) => fill(empty(row.querySelector(`.${name}`)), {}, [what]);
  put("spark", brief.kinds && sparkOf(brief));
  put("outcome", endOfBrief(brief));
  put("cost", costOf(brief));
}

/** Reads the briefs of rows that have none, or an older one. */
async function readBriefs() {
  shelf.waits = 0;
  const wanted = shelf.rows.filter((one) => briefs.get(one.session)?.state !== stateOf(one)).slice(0, 100);
  if (!wanted.length) return;
  for (const one of wanted) briefs.set(one.session, { ...briefs.get(one.session), state: stateOf(one) });
  const names = wanted.map((one) => `session=${encodeURIComponent(one.session)}`);
  // As much as an address has room for.
  while (names.length) {
    const some = names.splice(0, 50);
    for await (const line of eachLine(await ask(`/api/briefs?${some.join("&")}`))) {
      const brief = JSON.parse(line);
      Object.assign(briefs.get(brief.session), { brief });
      const row = [...parts.list.querySelectorAll(".session-line")].find((one) => one.dataset.session === brief.session);
      if (row) fillBrief(row, brief);
    }
  }
  waitForBriefs();
}

/** Asks for briefs soon: at once when the list comes, and now and then while sessions change. */
function waitForBriefs(after = BRIEF_MS) {
  if (shelf.waits || !shelf.rows.some((one) => briefs.get(one.session)?.state !== stateOf(one))) return;
  shelf.waits = setTimeout(() => { readBriefs().catch((error) => sayState(error.message)); }, after);
}

function sessionLine(one) {
  const cell = (name, ...words) => h("span", { class: name }, words);
  return h("a", { class: "line-link session-line", href: addressOf(one.session), "data-session": one.session, title: joined([plural(one.turns, "turn"), one.git_branch && `git branch ${one.git_branch}`].filter(Boolean)) },
    h("span", { class: one.live ? "dot live" : "dot", title: one.live ? "an agent is at work" : null }),
    h("span", { class: "name" }, h("span", { class: "title" }, one.title || one.session), one.labels.map((label) => h("span", { class: "label" }, label)),
      one.branches > 1 && h("span", { class: "quiet" }, `${one.branches} branches`), conflictChip(one.conflicts), one.secrets > 0 && h("span", { class: "conflicts", title: "turntree secrets scan says where" }, plural(one.secrets, "secret")),
      one.expires && h("span", { class: "conflicts", title: "A retention policy forgets it then; turntree pin keeps it" }, `until ${dayOf(Date.parse(one.expires)).slice(5)}`)),
    cell("spark"), h("small", {}, cell("outcome"), cell("agent", one.agent), cell("project", one.project), cell("number", plural(one.prompts, "prompt")), cell("number cost")),
    h("time", { datetime: one.time, title: one.time }, ago(one.time)));
}

/** A row with what is known of its session. */
function knownLine(one) {
  const row = sessionLine(one);
  const known = briefs.get(one.session)?.brief;
  if (known) fillBrief(row, known);
  return row;
}

/** Sessions below the days of them. */
const sessionLines = (rows) => rows.flatMap((one, at) => {
  const day = dayName(one.time);
  return [(at === 0 || dayName(rows[at - 1].time) !== day) && h("h2", { class: "day" }, day), knownLine(one)];
});

const choice = (label, number, is, action) => h("button", { type: "button", class: "chip", "aria-pressed": String(is), on: { click: action } }, label, h("small", {}, number));

/** What the list is asked for, as its address says it, too. */
const wantedSessions = () => new URLSearchParams(Object.entries({ q: query.value, agent: shelf.agent, label: shelf.label, ...Object.fromEntries(["live", ...WAITING.map(([name]) => name)].map((name) => [name, shelf[name] ? "true" : ""])) }).filter(([, value]) => value));

/** Reads sessions from `from` on, where they were not asked for already; those before it stay. */
async function readSessions(from = 0, some = 100, answer = /** @type {Promise<Response> | null} */ (null)) {
  shelf.asked += 1;
  const mine = shelf.asked;
  const asked = wantedSessions();
  history.replaceState(history.state, "", `/${asked.size ? `?${asked}` : ""}`);
  const kept = new URLSearchParams(asked);
  kept.delete("q");
  inTab("turntree-list", kept.size ? `?${kept}` : "");
  asked.set("from", String(from));
  asked.set("n", String(some));
  const found = await (await (answer ?? ask(`/api/sessions?${asked}`))).json();
  if (mine !== shelf.asked) return;
  // Which agents and labels there are is no matter of what is searched for.
  const counted = !asked.has("q") || !shelf.agents.length ? { agents: found.agents ?? shelf.agents, labels: found.labels ?? shelf.labels } : {};
  Object.assign(shelf, { rows: [...shelf.rows.slice(0, from), ...found.sessions], total: found.total, all: found.all, next: found.next, counts: found.undecided === null ? shelf.counts : found, ...counted });
  drawSessions();
}

const parts = { chips: h("div", { class: "chips", role: "group", "aria-label": "Filters" }), list: h("div", { class: "session-list" }), places: h("div", { class: "hits" }), more: h("p", {}) };

function drawSessions() {
  const pick = (what, value) => () => {
    shelf[what] = shelf[what] === value ? (value === true ? false : "") : value;
    readSessions();
  };
  const group = (what, of) => of.length > 0 && h("span", {}, of.map(([name, number]) => choice(name || "no agent", number, shelf[what] === name, pick(what, name))));
  const waiting = WAITING.filter(([name]) => shelf.counts[name] > 0 || shelf[name]);
  fill(empty(parts.chips), {}, [waiting.length > 0 && h("span", { class: "waiting" }, waiting.map(([name, label]) => choice(label, shelf.counts[name], shelf[name], pick(name, true)))), h("span", {}, choice("At work", "", shelf.live, pick("live", true))), group("agent", shelf.agents), group("label", shelf.labels)]);
  const focused = /** @type {HTMLElement} */ (document.activeElement)?.dataset.session;
  const none = () => (shelf.all ? query.value.trim().length < LEAST_WORDS && h("p", { class: "quiet" }, "No session is called so.")
    : h("p", { class: "quiet" }, "There is no session yet. This command brings in those of the agents on this machine: ", copyButton("turntree adopt", "turntree adopt")));
  fill(empty(parts.list), {}, shelf.rows.length ? sessionLines(shelf.rows) : [none()]);
  if (focused) [...parts.list.querySelectorAll("a")].find((one) => one.dataset.session === focused)?.focus();
  fill(empty(parts.more), {}, [shelf.next !== null && h("button", { type: "button", class: "more", on: { click: () => readSessions(shelf.next) } }, `Show more of ${shelf.total - shelf.next}`)]);
  byId("about").textContent = shelf.total === shelf.all || !shelf.total ? plural(shelf.all, "session") : `${shelf.total} of ${plural(shelf.all, "session")}`;
  filterHits();
  comeBack();
  waitForBriefs(0);
}

// The way back: the entry of the history knows what was looked at, and the address what was asked for.

let back = history.state;

const keepPlace = () => {
  if (!back) history.replaceState({ top: view.scrollTop, link: document.activeElement?.getAttribute("href"), rows: shelf.rows.length }, "");
};

/** Goes back to what was looked at, as far as it is there again. */
function comeBack() {
  if (!back) return;
  const link = [...view.querySelectorAll("a")].find((one) => one.getAttribute("href") === back.link);
  view.scrollTop = back.top;
  if (back.link && !link) return;
  link?.focus({ preventScroll: true });
  back = null;
}

// Hits, by session.

/** Hits of sessions that the filters leave out are not shown. */
function filterHits() {
  for (const group of parts.places.querySelectorAll(".group")) {
    group.hidden = Boolean((shelf.agent && group.dataset.agent !== shelf.agent) || (shelf.label && !group.labels.includes(shelf.label)));
  }
}

/** Where words stand: who said them, or the place of a file, note or state. */
const sayerOf = ({ path, role }) => (path.includes("/messages/") ? `${NAMES[role] ?? role}${agentOf(path) === "main" ? "" : ` (${agentOf(path)})`}` : path);

/** A hit that leads to where words stand: text in stretches, of which every second one was looked for. */
const hitLine = (place, words, stretches) => h("a", { class: "hit", href: `${addressOf(place.session)}#id-${place.id}?w=${encodeURIComponent(words)}` },
  h("small", {}, h("b", {}, sayerOf(place)), ` turn ${place.turn}`, place.missing?.length > 0 && `, without ${place.missing.join(", ")}`),
  h("span", {}, stretches.map((text, at) => (at % 2 ? h("mark", {}, text) : text))));

/** Puts a hit below those of its session. */
function putHit(list, place, line) {
  let group = list.lastElementChild;
  if (group?.dataset.session !== place.session) {
    group = h("div", { class: "group", "data-session": place.session, "data-agent": place.agent },
      h("h3", {}, h("a", { href: addressOf(place.session) }, place.title || place.session), h("small", {}, joined([place.agent, place.project, ago(place.time)].filter(Boolean)))));
    group.labels = place.labels;
    list.append(group);
  }
  group.append(line);
}

/** Who types is asked for the beginning of a word, until it is one. */
const typedWords = (/** @type {string} */ words) => (/[\p{L}\p{N}]$/u.test(words) && words.split('"').length % 2 ? `${words}*` : words);

/** Puts a part for hits on the page: how it stands with it, hits, and more below them. */
function hitList(name) {
  const [told, list, more] = [h("small", {}, "searching\u2026"), h("div", {}), h("p", {})];
  parts.places.append(h("section", { class: "part" }, h("h2", { class: "part-title" }, name, told), list, more));
  return { list, more, tell: (/** @type {string} */ words) => told.replaceChildren(words), count: () => list.querySelectorAll(".hit").length };
}

/** Searches everything for what is typed. */
function searchEverywhere(/** @type {string} */ words) {
  searching.stop.abort();
  parts.places.replaceChildren();
  shelf.words = words.trim().length < LEAST_WORDS ? "" : words;
  if (shelf.words) rankWords();
}

/**
 * Shows what has the words, the best sessions first: one question after the other, since the first may make the
 * index, and who types on is answered for what stands there then. Where that takes long, text is looked for meanwhile.
 */
async function rankWords() {
  const { words } = shelf;
  const { list, more, tell, count: hits } = hitList("The best matches");
  const late = setTimeout(() => shelf.ranking && searchText(words), LATE_MS);
  if (shelf.ranking) return;
  shelf.ranking = true;
  const read = async () => {
    let found;
    for await (const line of eachLine(await ask(`/api/words?q=${encodeURIComponent(typedWords(words))}&from=${hits()}`))) {
      found = JSON.parse(line);
      if (!found.hits) tell(found.all ? `indexing new turns: ${found.done} of ${plural(found.all, "turn")}` : "waiting for another search");
    }
    for (const hit of found.hits) putHit(list, hit, hitLine(hit, hit.parts[1] || words, hit.parts));
    const number = hits();
    tell(number ? `${plural(number, "match", "matches")}${found.more ? ", and more" : ""}${found.unread ? `; ${plural(found.unread, "part")} could not be read` : ""}` : "nothing has any of these words");
    more.replaceChildren(...(found.more ? [moreButton("Show more", read)] : []));
    filterHits();
    comeBack();
  };
  await read().catch((error) => tell(error.message));
  clearTimeout(late);
  shelf.ranking = false;
  if (shelf.words !== words) return shelf.words && searchEverywhere(shelf.words);
  if (parts.places.childElementCount > 1) return;
  if (!hits()) return searchText(words);
  const find = moreButton("Find this text as it stands, in parts of words too", () => searchText(words));
  parts.places.append(h("p", {}, find));
}

/** Shows where a text stands, in all sessions, as the server finds it. */
async function searchText(/** @type {string} */ words) {
  if (words !== shelf.words) return;
  if (parts.places.childElementCount > 1) parts.places.lastChild.remove();
  const { list, tell, count: hits } = hitList("The text as it stands");
  const put = (place) => {
    if (hits() >= MOST_PLACES) return searching.stop.abort();
    const line = place.lines[0] || "";
    const [start, end] = [placeOf(line, words), placeOf(line, words) + words.length];
    putHit(list, place, hitLine(place, words, [`${start > 80 ? "\u2026" : ""}${line.slice(Math.max(0, start - 80), start)}`, line.slice(start, end), line.slice(end, end + 120)]));
  };
  try {
    await searchServer(words, null, put);
  } catch (error) {
    if (error.name !== "AbortError") return tell(error.message);
  }
  tell(hits() < MOST_PLACES ? plural(hits(), "place") : `the first ${MOST_PLACES} places`);
  filterHits();
}

/** Moves among the sessions and hits. */
function stepLine(by) {
  const lines = [...view.querySelectorAll("a.session-line, a.hit")];
  const at = lines.indexOf(document.activeElement);
  /** @type {HTMLElement} */ (lines[Math.max(0, Math.min(lines.length - 1, at + by))])?.focus();
}

function keyOfList(/** @type {KeyboardEvent} */ event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isTyping = /** @type {HTMLElement} */ (event.target).closest("input");
  const by = { ArrowDown: 1, ArrowUp: -1, ...(isTyping ? {} : { j: 1, k: -1 }) }[event.key];
  if (by) stepLine(by);
  else if (isTyping) return;
  else if (event.key === "?") showKeys([["j  \u2193", "next line"], ["k  \u2191", "previous line"], ["/", "search everything"], ["Ctrl-K", "search from everywhere"], ["t", "light or dark"]]);
  else if (event.key === "/") query.select();
  else if (event.key === "t") turnTheme();
  else return;
  event.preventDefault();
}

/** Pages about the whole store. */
const STORE_PAGES = [["Sessions", "/"], ["Usage", "/usage"], ["Operations", "/operations"], ["Storage", "/storage"]];

/** Prepares the frame for a page about the whole store. */
function frame() {
  document.body.classList.replace("blank", "listing");
  const [name, path] = STORE_PAGES.find(([, at]) => at === location.pathname);
  document.title = `${name} \u00b7 turntree`;
  byId("title").append(h("a", { href: path }, name));
  byId("bar").replaceChildren(...STORE_PAGES.map(([label, href]) => h("a", { href, "aria-current": href === path ? "page" : null }, label)),
    h("button", { type: "button", "aria-label": "Light or dark", title: "Light or dark (t)", on: { click: turnTheme } }, "\u25d0"));
  document.addEventListener("keydown", keyOfList);
}

/** Shows a page about the whole store that is not the list of sessions. */
function showStorePage(/** @type {string} */ name) {
  frame();
  byId("find").hidden = true;
  const draw = () => view.replaceChildren(screens[name]());
  draw();
  screens.redraw = draw;
  performance.mark("turntree-shown");
  // Who looks at an operation is left alone.
  listen(async () => { if (name === "operations" && !view.querySelector("details[open]")) draw(); });
}

screens.sessions = async (/** @type {Promise<Response> | null} */ first) => {
  frame();
  query.placeholder = "Search all sessions";
  const asked = new URLSearchParams(location.search);
  query.value = asked.get("q") ?? "";
  Object.assign(shelf, { agent: asked.get("agent") ?? "", label: asked.get("label") ?? "", ...Object.fromEntries(["live", ...WAITING.map(([name]) => name)].map((name) => [name, asked.has(name)])) });
  const strip = h("a", { class: "strip", href: "/usage", title: "Usage" });
  view.replaceChildren(h("article", { class: "page", "aria-label": "Sessions" }, strip, parts.chips, parts.list, parts.more, parts.places));
  let typed = 0;
  let searched = 0;
  query.addEventListener("input", () => {
    clearTimeout(typed);
    clearTimeout(searched);
    typed = setTimeout(() => readSessions(), TYPED_MS);
    searched = setTimeout(() => searchEverywhere(query.value), SEARCH_MS);
  });
  const most = Math.max(100, back?.rows ?? 0);
  try {
    await readSessions(0, most, first);
    if (first && most > 100) await readSessions(100, most - 100);
  } catch (error) {
    return sayRefusal(error);
  }
  searchEverywhere(query.value);
  // A hand on the page is the end of coming back.
  for (const event of ["wheel", "pointerdown", "keydown"]) document.addEventListener(event, () => { back = null; }, { passive: true });
  let scrolledAt = 0;
  view.addEventListener("scroll", () => {
    clearTimeout(scrolledAt);
    scrolledAt = setTimeout(keepPlace, FOLLOW_MS);
  }, { passive: true });
  view.addEventListener("focusin", keepPlace);
  performance.mark("turntree-shown");
  // The messages of all sessions are read for it.
  if (shelf.all > MOST_SUMMED) strip.hidden = true;
  else drawStrip(strip).catch((error) => sayState(error.message));
  listen(() => readSessions(0, Math.max(100, shelf.rows.length)));
};

screens.store = showStorePage;

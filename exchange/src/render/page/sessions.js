// All sessions of a store, with search and filters, and hits of everything that was ever said.

const shelf = { rows: /** @type {any[]} */ ([]), total: 0, all: 0, agents: /** @type {any[]} */ ([]), labels: /** @type {any[]} */ ([]), agent: "", label: "", live: false, next: /** @type {number | null} */ (null), asked: 0, words: "", ranking: false };

/** Characters from which everything is searched, and the pause in typing before that. */
const LEAST_WORDS = 3;
const TYPED_MS = 120;
const SEARCH_MS = 350;
const MOST_PLACES = 100;

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

function sessionLine(one) {
  const facts = [one.agent, one.project, one.git_branch, plural(one.prompts, "prompt"), plural(one.turns, "turn"), one.branches > 1 && plural(one.branches, "branch", "branches"), one.tokens > 0 && `${short(one.tokens)} tokens`].filter(Boolean);
  return h("a", { class: "line-link session-line", href: addressOf(one.session), "data-session": one.session },
    h("span", { class: one.live ? "dot live" : "dot", title: one.live ? "an agent is at work" : null }),
    h("span", { class: "title" }, one.title || one.session), h("time", { datetime: one.time, title: one.time }, ago(one.time)),
    h("small", {}, joined(facts), one.labels.map((label) => h("span", { class: "label" }, label))));
}

const choice = (label, number, is, action) => h("button", { type: "button", class: "chip", "aria-pressed": String(is), on: { click: action } }, label, h("small", {}, number));

/** Reads sessions from `from` on, where they were not asked for already; those before it stay. */
async function readSessions(from = 0, some = 100, answer = /** @type {Promise<Response> | null} */ (null)) {
  shelf.asked += 1;
  const mine = shelf.asked;
  const asked = new URLSearchParams({ q: query.value, agent: shelf.agent, label: shelf.label, from: String(from), n: String(some) });
  if (shelf.live) asked.set("live", "true");
  const found = await (await (answer ?? ask(`/api/sessions?${asked}`))).json();
  if (mine !== shelf.asked) return;
  Object.assign(shelf, { rows: [...shelf.rows.slice(0, from), ...found.sessions], total: found.total, all: found.all, agents: found.agents ?? shelf.agents, labels: found.labels ?? shelf.labels, next: found.next });
  drawSessions();
}

const parts = { chips: h("p", { class: "chips", role: "group", "aria-label": "Filters" }), list: h("div", { class: "session-list" }), places: h("div", { class: "hits" }), more: h("p", {}) };

function drawSessions() {
  const pick = (what, value) => () => {
    shelf[what] = shelf[what] === value ? (value === true ? false : "") : value;
    readSessions();
  };
  parts.chips.replaceChildren(choice("At work", "", shelf.live, pick("live", true)),
    ...shelf.agents.map(([name, number]) => choice(name || "no agent", number, shelf.agent === name, pick("agent", name))),
    ...shelf.labels.map(([name, number]) => choice(name, number, shelf.label === name, pick("label", name))));
  const focused = /** @type {HTMLElement} */ (document.activeElement)?.dataset.session;
  parts.list.replaceChildren(...(shelf.rows.length ? shelf.rows.map(sessionLine) : [h("p", { class: "quiet" }, shelf.all ? "No session is called so." : "There is no session yet: turntree adopt brings in those of the agents on this machine.")]));
  if (focused) [...parts.list.querySelectorAll("a")].find((one) => one.dataset.session === focused)?.focus();
  parts.more.replaceChildren(...(shelf.next === null ? [] : [h("button", { type: "button", class: "more", on: { click: () => readSessions(shelf.next) } }, `Show more of ${shelf.total - shelf.next}`)]));
  byId("about").textContent = shelf.total === shelf.all ? plural(shelf.all, "session") : `${shelf.total} of ${plural(shelf.all, "session")}`;
}

/** A hit that leads to where words stand: text in stretches, of which every second one was looked for. */
const hitLine = (place, words, stretches) => h("a", { class: "hit", href: `${addressOf(place.session)}#id-${place.id}?w=${encodeURIComponent(words)}` },
  h("b", {}, place.title || place.session), h("small", {}, `turn ${place.turn} \u00b7 ${place.path}${place.missing?.length ? ` \u00b7 without ${place.missing.join(", ")}` : ""}`),
  h("span", {}, stretches.map((text, at) => (at % 2 ? h("mark", {}, text) : text))));

/** Who types is asked for the beginning of a word, until it is one. */
const typedWords = (/** @type {string} */ words) => (/[\p{L}\p{N}]$/u.test(words) && words.split('"').length % 2 ? `${words}*` : words);

/** Puts a part for hits on the page: how it stands with it, hits, and more below them. */
function hitList(name) {
  const [told, list, more] = [h("small", {}, "searching\u2026"), h("div", {}), h("p", {})];
  parts.places.append(h("section", {}, h("h3", {}, name, told), list, more));
  return { list, more, tell: (/** @type {string} */ words) => told.replaceChildren(words) };
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
  const { list, more, tell } = hitList("The best matches");
  const late = setTimeout(() => shelf.ranking && searchText(words), LATE_MS);
  if (shelf.ranking) return;
  shelf.ranking = true;
  const read = async () => {
    let found;
    for await (const line of eachLine(await ask(`/api/words?q=${encodeURIComponent(typedWords(words))}&from=${list.childElementCount}`))) {
      found = JSON.parse(line);
      if (!found.hits) tell(found.all ? `indexing new turns: ${found.done} of ${plural(found.all, "turn")}` : "waiting for another search");
    }
    list.append(...found.hits.map((hit) => hitLine(hit, hit.parts[1] || words, hit.parts)));
    const number = list.childElementCount;
    tell(number ? `${plural(number, "match", "matches")}${found.more ? ", and more" : ""}${found.unread ? `; ${plural(found.unread, "part")} could not be read` : ""}` : "nothing has any of these words");
    more.replaceChildren(...(found.more ? [moreButton("Show more", read)] : []));
  };
  await read().catch((error) => tell(error.message));
  clearTimeout(late);
  shelf.ranking = false;
  if (shelf.words !== words) return shelf.words && searchEverywhere(shelf.words);
  if (parts.places.childElementCount > 1) return;
  if (!list.childElementCount) return searchText(words);
  const find = moreButton("Find this text as it stands, in parts of words too", () => searchText(words));
  parts.places.append(h("p", {}, find));
}

/** Shows where a text stands, in all sessions, as the server finds it. */
async function searchText(/** @type {string} */ words) {
  if (words !== shelf.words) return;
  if (parts.places.childElementCount > 1) parts.places.lastChild.remove();
  const { list, tell } = hitList("The text as it stands");
  const put = (place) => {
    if (list.childElementCount >= MOST_PLACES) return searching.stop.abort();
    const line = place.lines[0] || "";
    const [start, end] = [placeOf(line, words), placeOf(line, words) + words.length];
    list.append(hitLine(place, words, [`${start > 80 ? "\u2026" : ""}${line.slice(Math.max(0, start - 80), start)}`, line.slice(start, end), line.slice(end, end + 120)]));
  };
  try {
    await searchServer(words, null, put);
  } catch (error) {
    if (error.name !== "AbortError") return tell(error.message);
  }
  tell(list.childElementCount < MOST_PLACES ? plural(list.childElementCount, "place") : `the first ${MOST_PLACES} places`);
}

/** Moves among the sessions and hits. */
function stepLine(by) {
  const lines = [...view.querySelectorAll("a.session-line, a.hit")];
  const at = lines.indexOf(document.activeElement);
  /** @type {HTMLElement} */ (lines[Math.max(0, Math.min(lines.length - 1, at + by))])?.focus();
}

function keyOfList(/** @type {KeyboardEvent} */ event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = /** @type {HTMLElement} */ (event.target).closest("input");
  const by = { ArrowDown: 1, ArrowUp: -1, ...(isTyping ? {} : { j: 1, k: -1 }) }[event.key];
  if (by) stepLine(by);
  else if (isTyping) return;
  else if (event.key === "/") query.select();
  else if (event.key === "t") turnTheme();
  else return;
  event.preventDefault();
}

/** Pages about the whole store. */
const STORE_PAGES = [["Sessions", "/"], ["Operations", "/operations"], ["Storage", "/storage"]];

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

screens.sessions = async (/** @type {Promise<Response>} */ first) => {
  frame();
  query.placeholder = "Search all sessions";
  view.replaceChildren(h("article", { class: "page", "aria-label": "Sessions" }, parts.chips, parts.list, parts.more, parts.places));
  let typed = 0;
  let searched = 0;
  query.addEventListener("input", () => {
    clearTimeout(typed);
    clearTimeout(searched);
    typed = setTimeout(() => readSessions(), TYPED_MS);
    searched = setTimeout(() => searchEverywhere(query.value), SEARCH_MS);
  });
  try {
    await readSessions(0, 100, first);
  } catch (error) {
    return sayRefusal(error);
  }
  performance.mark("turntree-shown");
  listen(() => readSessions(0, Math.max(100, shelf.rows.length)));
};

screens.store = showStorePage;

// The list of sessions where another page is read: beside it on a wide screen, its neighbours by key, and a search from everywhere.

/** The rows that stand beside a session, and the longest wait for those of a store that changes. */
const SOME_BESIDE = 200;
const BESIDE_MS = 1000;

/** Sessions, groups of hits and searches of the search from everywhere, and its pause in typing. */
const MOST_NAMED = 5;
const MOST_LAST = 8;
const SEEK_MS = 150;

/** The sessions around the one that is read, as its list was filtered. */
const near = { rows: /** @type {any[]} */ ([]), drawn: "", come: /** @type {Promise<void> | null} */ (null) };

async function readNear() {
  const asked = (more) => askJson(`/api/sessions?around=${encodeURIComponent(nameOfSession())}&n=${SOME_BESIDE}${more}`);
  const isHere = ({ sessions }) => sessions.some((one) => one.session === nameOfSession());
  let found = await asked(listFilter().replace("?", "&"));
  if (!isHere(found)) found = await asked("");
  near.rows = found.sessions;
}

/** Shows the list beside a session, where there is room for it. */
screens.beside = (/** @type {HTMLElement} */ aside) => {
  const wide = matchMedia(WIDE);
  const name = nameOfSession();
  const line = (one) => h("a", { class: "beside-line", href: addressOf(one.session), "data-session": one.session, "aria-current": one.session === name ? "page" : null, title: one.title || one.session },
    h("span", { class: one.live ? "dot live" : "dot" }), h("span", { class: "title" }, one.title || one.session), h("small", {}, joined([one.agent, one.project].filter(Boolean))), conflictChip(one.conflicts), h("time", { datetime: one.time }, ago(one.time)));
  const lines = h("nav", { "aria-label": "Sessions" });
  const draw = async () => {
    if (!wide.matches) return;
    await readNear();
    // A row that is the same stays, since it may be clicked on at this moment.
    const rows = JSON.stringify(near.rows);
    if (rows === near.drawn) return;
    near.drawn = rows;
    const { scrollTop } = lines;
    fill(empty(lines), {}, near.rows.flatMap((one, at) => [(at === 0 || dayName(near.rows[at - 1].time) !== dayName(one.time)) && h("h2", { class: "day" }, dayName(one.time)), line(one)]));
    if (!aside.firstChild) {
      aside.append(lines);
      // The row of the session stands where it was in the list before, or in the middle.
      const row = lines.querySelector("[aria-current]");
      const before = Number(inTab("turntree-beside"));
      if (row) lines.scrollTop = row.offsetTop - lines.offsetTop - (before || lines.clientHeight / 2);
    } else lines.scrollTop = scrollTop;
  };
  lines.addEventListener("click", ({ target }) => {
    const row = /** @type {HTMLElement} */ (target).closest("a");
    if (row) inTab("turntree-beside", String(row.offsetTop - lines.offsetTop - lines.scrollTop));
  });
  const redraw = () => { draw().catch((error) => sayState(error.message)); };
  wide.addEventListener("change", redraw);
  redraw();
  let waits = 0;
  return () => { waits ||= setTimeout(() => { waits = 0; redraw(); }, BESIDE_MS); };
};

/** Goes to the session above or below this one in the list; Back leads to the list all the same. */
screens.neighbour = async (/** @type {number} */ by) => {
  near.come ??= near.rows.length ? Promise.resolve() : readNear().finally(() => { near.come = null; });
  await near.come;
  const to = near.rows[near.rows.findIndex((one) => one.session === nameOfSession()) + by];
  if (to) location.replace(addressOf(to.session));
  else say(by < 0 ? "This is the first session" : "This is the last session");
};

// The search from everywhere.

const SEARCHES = "turntree-searches";

function lastSearches() {
  try {
    const found = JSON.parse(remembered((store) => store.getItem(SEARCHES)));
    return Array.isArray(found) ? found.filter((words) => typeof words === "string").slice(0, MOST_LAST) : [];
  } catch { return []; }
}

function rememberSearch(/** @type {string} */ words) {
  if (words.length < LEAST_WORDS) return;
  const kept = [words, ...lastSearches().filter((one) => one !== words)].slice(0, MOST_LAST);
  remembered((store) => store.setItem(SEARCHES, JSON.stringify(kept)));
}

screens.palette = () => {
  const box = h("input", { type: "search", "aria-label": "Search all sessions", placeholder: "Search all sessions", autocomplete: "off", spellcheck: "false", autofocus: true });
  const [named, hits] = [h("div", {}), h("div", { class: "hits" })];
  const told = h("p", { class: "quiet", role: "status" });
  const dialog = h("dialog", { id: "palette", "aria-label": "Search all sessions" }, box, told, named, hits);
  let stop = new AbortController();
  let typed = 0;
  const begin = () => {
    const last = lastSearches();
    const again = (words) => h("button", { type: "button", class: "chip", on: { click: () => { box.value = words; box.focus(); seek(words); } } }, words);
    named.replaceChildren(last.length ? h("p", { class: "chips", "aria-label": "Last searches", role: "group" }, last.map(again)) : "");
    hits.replaceChildren();
    told.textContent = last.length ? "Last searches" : "Words of a title, a message, a note or a file";
  };
  const seek = async (/** @type {string} */ words) => {
    stop.abort();
    stop = new AbortController();
    const { signal } = stop;
    if (!words.trim()) return begin();
    try {
      const found = await (await ask(`/api/sessions?q=${encodeURIComponent(words)}&n=${MOST_NAMED}`, signal)).json();
      named.replaceChildren(...found.sessions.map((one) => sessionLine(one)));
      hits.replaceChildren();
      told.textContent = words.trim().length < LEAST_WORDS ? plural(found.total, "session") : "searching\u2026";
      if (words.trim().length < LEAST_WORDS) return;
      for await (const line of eachLine(await ask(`/api/words?q=${encodeURIComponent(typedWords(words))}`, signal))) {
        const answer = JSON.parse(line);
        if (!answer.hits) told.textContent = answer.all ? `indexing new turns: ${answer.done} of ${plural(answer.all, "turn")}` : "waiting for another search";
        for (const hit of answer.hits ?? []) putHit(hits, hit, hitLine(hit, hit.parts[1] || words, hit.parts));
        if (answer.hits) told.textContent = `${plural(found.total, "session")}, ${plural(answer.hits.length, "match", "matches")}${answer.more ? ", and more" : ""}`;
      }
    } catch (error) {
      if (error.name !== "AbortError") told.textContent = error.message;
    }
  };
  box.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => seek(box.value), SEEK_MS);
  });
  dialog.addEventListener("keydown", (event) => {
    const lines = [...dialog.querySelectorAll("a.session-line, a.hit, .chip")];
    const at = lines.indexOf(document.activeElement);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const to = at + (event.key === "ArrowDown" ? 1 : -1);
      (to < 0 ? box : lines[Math.min(to, lines.length - 1)])?.focus();
    } else if (event.key === "Escape") dialog.close(); // A box for searches keeps this key to itself.
    else if (event.key === "Enter" && document.activeElement === box) {
      rememberSearch(box.value);
      location.assign(`/?q=${encodeURIComponent(box.value)}`);
    } else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", ({ target }) => {
    if (target === dialog) dialog.close();
    if (!/** @type {HTMLElement} */ (target).closest("a")) return;
    rememberSearch(box.value);
    // A link within this session changes the place alone.
    dialog.close();
  });
  dialog.addEventListener("close", () => {
    stop.abort();
    clearTimeout(typed);
    dialog.remove();
  });
  document.body.append(dialog);
  begin();
  dialog.showModal();
};

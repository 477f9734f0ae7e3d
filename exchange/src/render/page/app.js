// The page: its bar, keys, themes, paper, and its start.

function drawBar() {
  const before = here.branch.line[Math.max(0, here.branch.places.get(here.turn) - 1)];
  const links = [
    HOME && ["sessions", "Sessions", HOME],
    ["overview", "Overview", `#overview${suffix(here.branch)}`], ["read", "Read", here.route === "read" ? hashOf(here.branch, here.turn) : `#read${suffix(here.branch)}`],
    ["diff", "Diff", diffHash({ branch: here.branch, turn: before }, { branch: here.branch, turn: here.turn })],
    header.compare && ["compare", "Compare", "#compare"],
    header.explorations?.length > 0 && ["explore", "Exploration", "#explore"],
  ].filter(Boolean);
  const button = (sign, name, key, action, attributes = {}) => h("button", { type: "button", "aria-label": name, title: `${name} (${key})`, ...attributes, on: { click: action } }, sign);
  byId("bar").replaceChildren(
    button("\u2630", "Outline", "u", toggleOutline, { class: "only-narrow" }),
    ...links.map(([name, label, href]) => h("a", { href, "data-to": name, "aria-current": here.route === name ? "page" : null }, label)),
    button("\u2387", "Picture of the branches", "m", toggleMap),
    button("\u25d0", "Light or dark", "t", turnTheme),
    button("?", "Keys", "?", askKeys));
  const current = byId("bar").querySelector("[aria-current]");
  if (current) byId("bar").scrollLeft = current.offsetLeft + current.offsetWidth - byId("bar").offsetLeft - byId("bar").clientWidth;
}

const toggleOutline = () => {
  document.body.classList.toggle("outlined");
  drawOutline();
};

function toggleMap() {
  document.body.classList.toggle("mapped");
  document.body.classList.toggle("unmapped");
  drawMap();
  drawOutline();
  drawReader();
}

// Themes: the theme of the system, until the user chooses one.

const root = document.documentElement;
const remembered = (what) => {
  try { return what(localStorage); } catch { return null; }
};

function turnTheme() {
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  remembered((store) => store.setItem("turntree-theme", root.dataset.theme));
}

// Keys.

/** @type {[string, string, string[], (key: string) => void][]} */
const KEYS = [
  ["j  \u2192", "next turn", ["j", "ArrowRight"], () => step(1)],
  ["k  \u2190", "previous turn", ["k", "ArrowLeft"], () => step(-1)],
  ["}  {", "next prompt, previous prompt", ["}", "{"], (key) => stepPrompt(key === "}" ? 1 : -1)],
  ["g  G", "first turn, last turn", ["g", "G"], (key) => slide(hashOf(here.branch, itemsHere().at(key === "g" ? 0 : -1)))],
  ["n  N", "next match, previous match", ["n", "N"], (key) => stepHit(key === "n" ? 1 : -1)],
  ["/", "search everything", ["/"], () => query.select()],
  ["v", "overview", ["v"], () => go(`#overview${suffix(here.branch)}`)],
  ["p", "charts", ["p"], () => go(`#charts${suffix(here.branch)}`)],
  ["e", "the end of the story", ["e"], () => go(`#read${suffix(here.branch)}`)],
  ["f", "next kind of turns", ["f"], () => nextKind()],
  ["b", "next branch", ["b"], () => nextBranch()],
  ["d", "difference from the previous turn", ["d"], () => byId("bar").querySelector("[data-to=diff]").click()],
  ["c", "strategies side by side", ["c"], () => header.compare && go("#compare")],
  ["o", "open or close the folds of the turn", ["o"], () => toggleFolds()],
  ["u", "outline, where it is hidden", ["u"], () => toggleOutline()],
  ["m", "picture of the branches", ["m"], () => toggleMap()],
  ["t", "light or dark", ["t"], () => turnTheme()],
  ["?", "these keys", ["?"], () => askKeys()],
  ["s", "all sessions", ["s"], () => HOME && location.assign(HOME)],
  ["Esc", "back to the turn", ["Escape"], () => go(hashOf(here.branch, here.turn))],
];

const askKeys = () => whenThere(() => {
  needScreens();
  showKeys(KEYS);
});

/** @returns {number[]} */
const itemsHere = () => (reader?.items.length ? reader.items : here.branch.line);

/** In a view that is no part of the reader, a step leads back to the turn that was read. */
function step(by) {
  const items = itemsHere();
  const to = here.route === "read" ? items[items.indexOf(here.turn) + by] : here.turn;
  if (to !== undefined) slide(hashOf(here.branch, to));
}

function stepPrompt(by) {
  const at = here.branch.places.get(here.turn);
  const prompts = chaptersOf(here.branch).map((chapter) => chapter.turn);
  const to = by > 0 ? prompts.find((turn) => here.branch.places.get(turn) > at) : prompts.findLast((turn) => here.branch.places.get(turn) < at);
  if (to !== undefined) slide(hashOf(here.branch, to));
}

function nextKind() {
  const kinds = KINDS.map(([name]) => name).filter((name) => storyOf(here.branch).kinds.get(name).length > 0);
  chooseKind(kinds[(kinds.indexOf(outline.kind) + 1) % kinds.length]);
}

function nextBranch() {
  const branch = branches[(here.branch.index + 1) % branches.length];
  slide(hashOf(branch, branch.places.has(here.turn) ? here.turn : branch.line.at(-1)));
}

function toggleFolds() {
  const scope = (reader && reader.shown.get(here.turn)) || view;
  const folds = [...scope.querySelectorAll("details")].filter((one) => !one.closest(".details"));
  const open = folds.some((one) => !one.open);
  folds.forEach((one) => { one.open = open; });
}

document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (!here.branch || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (target.closest("input, select, textarea")) {
    if (event.key !== "Escape") return;
    target.blur();
    if (here.route === "search") go(hashOf(here.branch, here.turn));
    return;
  }
  const inList = target.closest("#list, #map");
  if (inList && target.closest("#list") && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
    event.preventDefault();
    toggleChapter(event.key === "ArrowRight");
    return;
  }
  const key = inList && event.key === "ArrowDown" ? "j" : inList && event.key === "ArrowUp" ? "k" : event.key;
  const found = KEYS.find(([, , keys]) => keys.includes(key));
  if (!found) return;
  event.preventDefault();
  found[3](key);
});

let typing = 0;
query.addEventListener("input", () => {
  if (!here.branch) return;
  clearTimeout(typing);
  typing = setTimeout(() => go(query.value ? `#search=${encodeURIComponent(query.value)}` : hashOf(here.branch, here.turn)), 160);
});
byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  view.focus();
});

function drawAbout() {
  // The name of the file stands in the address: a link to this page and not within it.
  byId("title").replaceChildren(h("a", { href: `${location.pathname.split("/").at(-1)}#overview` }, header.title));
  byId("about").textContent = [branches.length > 1 && plural(branches.length + (header.more | 0), "branch", "branches"), plural(turns.length, "turn"), plural(count("m"), "message")].filter(Boolean).join(" \u00b7 ");
}

/** Shows what was read, step by step where there is much of it. */
async function start() {
  here.branch = await setBranches();
  here.turn = here.branch.line.at(-1);
  drawAbout();
  await breathe();
  drawMap();
  await breathe();
  drawBranches();
  drawKinds();
  move(here);
  await breathe();
  route();
  list.addEventListener("scroll", drawOutline, { passive: true });
  view.addEventListener("scroll", scrolled, { passive: true });
  view.addEventListener("toggle", () => drawReader(), true);
  new ResizeObserver(() => drawReader()).observe(view);
  window.addEventListener("hashchange", route);
  window.addEventListener("resize", () => { drawMap(); drawOutline(); });
  // On paper every turn is there, and every fold is open.
  window.addEventListener("beforeprint", () => {
    finishReader();
    view.querySelectorAll("details").forEach((/** @type {any} */ one) => {
      if (one.closest(".details")) return;
      whenThere(() => one.unfold?.());
      one.open = true;
    });
  });
  window.addEventListener("afterprint", resumeReader);
}

const theme = remembered((store) => store.getItem("turntree-theme"));
if (theme === "light" || theme === "dark") root.dataset.theme = theme;
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  view.focus();
});

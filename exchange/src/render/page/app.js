// The page: what is shown where, addresses, keys, themes.

const list = byId("list");
const rows = byId("rows");
const view = byId("view");
const query = byId("query");
const ROW = 46;

const here = { branch: branches[0], turn: branches[0].line[0], route: "", hash: null };

const branchWith = (turn) => (here.branch.places.has(turn) ? here.branch : branches[owner.get(turn)]);

/** Goes to an address, at once: the event of the browser comes later than the next key may. */
function go(hash) {
  location.hash = hash;
  route();
}

const openTurn = (branch, turn) => go(hashOf(branch, turn));

// The list of turns: only the rows that are seen are there.

function drawList() {
  const line = here.branch.line;
  rows.style.height = `${line.length * ROW}px`;
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 6);
  const last = Math.min(line.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 6);
  rows.replaceChildren(...line.slice(first, last).map((turn, at) => rowOf(turn, first + at, line.length)));
}

function rowOf(turn, at, size) {
  const { added, files } = tallies[turn];
  const owned = branches[owner.get(turn)];
  const row = h("a", {
    class: `turn-row ${color(owned)}${turns[turn].change ? "" : " expired"}`, href: hashOf(here.branch, turn), id: `row-${turn}`, tabindex: -1, role: "option",
    "aria-selected": String(turn === here.turn), "aria-setsize": size, "aria-posinset": at + 1,
  }, h("b", {}, turns[turn].turn), h("span", { class: "title" }, firstLine(turns[turn].message) || turns[turn].trigger),
  h("small", {}, isSpecial(turns[turn]) && `${turns[turn].trigger} \u00b7 `, plural(added, "message"), files > 0 && ` \u00b7 ${plural(files, "file")}`));
  row.style.top = `${at * ROW}px`;
  return row;
}

function reveal(turn) {
  const top = here.branch.places.get(turn) * ROW;
  if (top < list.scrollTop + ROW) list.scrollTop = top - 2 * ROW;
  else if (top > list.scrollTop + list.clientHeight - 2 * ROW) list.scrollTop = top - list.clientHeight + 3 * ROW;
}

function drawBranches() {
  const chip = (branch) => h("button", { type: "button", class: `chip ${color(branch)}`, "aria-pressed": String(branch === here.branch), on: { click: () => openTurn(branch, branch.line.at(-1)) } }, branch.name, h("small", {}, branch.line.length));
  byId("branches").replaceChildren(...branches.map(chip));
}

// Addresses.

const SIDE = /^(\d+)(?:@(.+))?$/;

function sideOf(text) {
  const found = SIDE.exec(text);
  if (!found) return null;
  let name = null;
  try {
    name = found[2] === undefined ? branches[0].name : decodeURIComponent(found[2]);
  } catch {
    return null;
  }
  const branch = branches.find((other) => other.name === name);
  return branch ? { branch, turn: turnNumbered(branch, Number(found[1])) } : null;
}

function route() {
  if (location.hash === here.hash) return;
  here.hash = location.hash;
  const hash = here.hash.slice(1);
  const [address, message] = hash.split("/m");
  const diff = address.startsWith("diff-") ? address.slice(5).split("..").map(sideOf) : [];
  const turn = address.startsWith("turn-") ? sideOf(address.slice(5)) : null;
  let shown;
  here.route = address.split(/[-=@]/)[0];
  if (diff.length === 2 && diff[0] && diff[1]) {
    move(diff[1]);
    shown = diffView(diff[0], diff[1]);
  } else if (address === "compare") shown = compareView();
  else if (address.startsWith("search=")) {
    let words = "";
    try { words = decodeURIComponent(hash.slice(7)); } catch { words = hash.slice(7); }
    if (query.value !== words) query.value = words;
    shown = words ? searchView(words) : turnBlock(here.branch, here.turn, true);
  } else if (address === "all" || address.startsWith("all@")) {
    const side = sideOf(`1${address.slice(3)}`);
    if (side) move({ branch: side.branch, turn: side.branch.places.has(here.turn) ? here.turn : side.turn });
    shown = wholeView(here.branch);
  } else {
    here.route = "turn";
    if (turn) move(turn);
    shown = turnBlock(here.branch, here.turn, true);
  }
  view.replaceChildren(shown);
  if (window.scrollY > view.offsetTop) window.scrollTo(0, view.offsetTop - 8);
  if (message) byId(`message-${message}`)?.scrollIntoView({ block: "center" });
  byId("said").textContent = shown.getAttribute("aria-label") || shown.querySelector("h2")?.textContent || "";
  drawBar();
}

function move({ branch, turn }) {
  const other = branch !== here.branch;
  Object.assign(here, { branch, turn });
  if (other) drawBranches();
  reveal(turn);
  drawList();
  list.setAttribute("aria-activedescendant", `row-${turn}`);
  markMap(branch, turn);
}

function drawBar() {
  const before = here.branch.line[Math.max(0, here.branch.places.get(here.turn) - 1)];
  const links = [
    ["turn", "Turn", hashOf(here.branch, here.turn)], ["all", "All", `#all${suffix(here.branch)}`],
    ["diff", "Diff", diffHash({ branch: here.branch, turn: before }, { branch: here.branch, turn: here.turn })],
    header.compare && ["compare", "Compare", "#compare"],
  ].filter(Boolean);
  byId("bar").replaceChildren(...links.map(([name, text, href]) => h("a", { href, "aria-current": here.route === name ? "page" : null }, text)),
    h("button", { type: "button", "aria-label": "Light or dark", title: "Light or dark (t)", on: { click: turnTheme } }, "\u25d0"),
    h("button", { type: "button", "aria-label": "Keys", title: "Keys (?)", on: { click: () => byId("help").showModal() } }, "?"));
}

// Themes: what the system says, until somebody chooses.

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

const KEYS = [
  ["j  \u2192", "next turn", ["j", "ArrowRight"], () => step(1)],
  ["k  \u2190", "turn before", ["k", "ArrowLeft"], () => step(-1)],
  ["g  G", "first turn, last turn", ["g", "G"], (key) => openTurn(here.branch, here.branch.line.at(key === "g" ? 0 : -1))],
  ["b", "next branch", ["b"], () => nextBranch()],
  ["/", "search everything", ["/"], () => query.select()],
  ["d", "difference from the turn before", ["d"], () => byId("bar").querySelector('[href^="#diff"]').click()],
  ["a", "all turns of the branch", ["a"], () => go(`#all${suffix(here.branch)}`)],
  ["c", "strategies side by side", ["c"], () => header.compare && go("#compare")],
  ["o", "open or close all folds", ["o"], () => toggleFolds()],
  ["t", "light or dark", ["t"], () => turnTheme()],
  ["?", "these keys", ["?"], () => byId("help").showModal()],
  ["Esc", "back to the turn", ["Escape"], () => openTurn(here.branch, here.turn)],
];

function step(by) {
  const to = here.branch.line[here.branch.places.get(here.turn) + by];
  if (to !== undefined) openTurn(here.branch, to);
}

function nextBranch() {
  const branch = branches[(here.branch.index + 1) % branches.length];
  openTurn(branch, branch.places.has(here.turn) ? here.turn : branch.line.at(-1));
}

function toggleFolds() {
  const folds = [...view.querySelectorAll("details")].filter((one) => !one.closest(".whole") && one.className !== "meta");
  const open = folds.some((one) => !one.open);
  folds.forEach((one) => { one.open = open; });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") {
      event.target.blur();
      if (here.route === "search") openTurn(here.branch, here.turn);
    }
    return;
  }
  const isList = event.target.closest("#list, #map");
  const key = isList && event.key === "ArrowDown" ? "j" : isList && event.key === "ArrowUp" ? "k" : event.key;
  const found = KEYS.find(([, , keys]) => keys.includes(key));
  if (!found) return;
  event.preventDefault();
  found[3](key);
});

byId("help").append(h("form", { method: "dialog" }, h("h2", { id: "help-title" }, "Keys"),
  h("dl", {}, KEYS.map(([keys, what]) => [h("dt", {}, keys.split("  ").map((key) => h("kbd", {}, key))), h("dd", {}, what)])),
  h("p", { class: "quiet" }, `Everything is in this file, and nothing is loaded. Made by ${header.madeBy}.`), h("button", {}, "Close")));

let typing = 0;
query.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => go(query.value ? `#search=${encodeURIComponent(query.value)}` : hashOf(here.branch, here.turn)), 160);
});
byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  view.focus();
});
list.addEventListener("scroll", drawList, { passive: true });
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  view.focus();
});
window.addEventListener("hashchange", route);
window.addEventListener("resize", () => { drawMap(); drawList(); });

// On paper every fold is open.
window.addEventListener("beforeprint", () => {
  view.querySelector(".all")?.finish();
  view.querySelectorAll("details").forEach((one) => {
    if (one.closest(".whole")) return;
    one.unfold?.();
    one.open = true;
  });
});

const theme = remembered((store) => store.getItem("turntree-theme"));
if (theme === "light" || theme === "dark") root.dataset.theme = theme;
document.title = byId("title").textContent = visible(header.title);
byId("about").textContent = [branches.length > 1 && plural(branches.length, "branch", "branches"), plural(turns.length, "turn"), plural(raw.m.length, "message")].filter(Boolean).join(" \u00b7 ");
drawMap();
drawBranches();
move(here);
route();
requestAnimationFrame(() => performance.mark("turntree-shown"));

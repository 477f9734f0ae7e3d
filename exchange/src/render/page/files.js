// Files of a turn, folder by folder, and who wrote each line of one.

/** Lines that are shown at once. */
const BLAME_ROWS = 600;

/** The answer to a question that is one value. */
const askJson = async (/** @type {string} */ path) => (await ask(path)).json();

/** A page whose content comes; what goes wrong stands in its place. */
function pageOf(name, head, /** @type {() => Promise<any>} */ make) {
  const box = h("div", {}, h("p", { class: "quiet" }, "\u2026"));
  const page = h("article", { class: "page", "aria-label": name, "aria-busy": "true" }, head, box);
  const put = (...content) => { box.replaceChildren(...content.flat(Infinity).filter(Boolean)); page.removeAttribute("aria-busy"); };
  make().then(put, (error) => put(h("p", { class: "failed", role: "alert" }, error.message)));
  return page;
}

/** The way to a folder or file, each step a link. */
function crumbs({ branch, turn }, /** @type {string} */ path) {
  const steps = path.split("/").filter(Boolean);
  const isFolder = path === "" || path.endsWith("/");
  const link = (name, to) => h("a", { href: filesHash(branch, turn, to) }, name);
  return h("p", { class: "path crumbs" }, link(`turn ${turns[turn].turn}`, ""), steps.map((step, at) => {
    const isLast = at === steps.length - 1;
    return [" / ", isLast ? h("b", {}, step) : link(step, `${steps.slice(0, at + 1).join("/")}/`)];
  }), isFolder && steps.length > 0 && " /");
}

screens.files = (rest) => {
  const [place, given = ""] = rest.split(":");
  const side = sideOf(place);
  if (!side) return h("article", { class: "page" }, h("h2", {}, "Files"), h("p", { class: "quiet" }, "There is no such turn."));
  move(side);
  const path = decoded(given) ?? "";
  const { id } = turns[side.turn];
  const isFile = path !== "" && !path.endsWith("/");
  const whole = [FILES, ...path.split("/").filter(Boolean)].join("/");
  const revision = id.slice(0, 12);
  const commands = [isFile && ["blame", `turntree blame ${shellWord(`${revision}:${whole}`)}`], ["restore", `turntree restore ${revision} --only ${shellWord(whole)} --dry-run`]].filter(Boolean);
  const head = h("header", { class: "view-head" }, h("h2", {}, isFile ? path.split("/").at(-1) : "Files"), crumbs(side, path),
    h("p", { class: "doors" }, h("a", { class: "button", href: hashOf(side.branch, side.turn) }, "The turn"), h("small", {}, "Copy: "), commands.map(([name, words]) => copyButton(name, words, `Copy: ${words}`))));
  return pageOf("Files", head, () => (isFile ? blameOf(id, whole) : folderOf(side, path, whole)));
};

/** The entries of a folder, folders first. */
async function folderOf({ branch, turn }, /** @type {string} */ path, whole) {
  // The name of a folder ends with a stroke.
  const line = (entry) => h("p", { class: "file-line" }, h("a", { class: "path", href: filesHash(branch, turn, `${path}${entry.name}`) }, entry.name),
    h("small", {}, entry.type === "link" ? "link" : entry.size !== undefined && bytes(entry.size)));
  const more = h("p", {});
  const box = h("div", { class: "folder" });
  const read = async (from) => {
    const found = await askJson(`/api/files?at=${turns[turn].id}&path=${encodeURIComponent(whole)}&from=${from}`);
    const isFolder = (entry) => Number(entry.type === "folder");
    box.append(...found.entries.sort((a, b) => isFolder(b) - isFolder(a)).map(line));
    more.replaceChildren(...(found.next === null ? [] : [moreButton("Show more", () => read(found.next))]));
  };
  await read(0);
  return [box.childElementCount ? box : h("p", { class: "quiet" }, "No file is kept in this turn."), more];
}

const moreButton = (label, /** @type {() => Promise<any>} */ action) =>
  h("button", { type: "button", class: "more", on: { click: () => action().catch((error) => sayState(error.message)) } }, label);

/** Where a turn is read that a blame names, in this session or another. */
function addressOfTurn(part) {
  const index = numbers.t.get(part.id);
  return index === undefined ? `${addressOf(part.session)}#turn-${part.turn}` : hashOf(branchWith(index), index);
}

/** The lines of a file, each with the turn that wrote it and how long ago that was. */
async function blameOf(id, /** @type {string} */ whole) {
  const parts = [];
  const slice = new Slice();
  for await (const line of eachLine(await ask(`/api/blame?at=${id}&path=${encodeURIComponent(whole)}`))) {
    parts.push(JSON.parse(line));
    if (slice.over()) await slice.rest();
  }
  if (!parts.length) return h("p", { class: "quiet" }, "This file is empty.");
  const row = (at) => {
    const part = parts[at];
    const begins = at === 0 || parts[at - 1].id !== part.id;
    const about = [`turn ${part.turn}`, part.time, part.author.agent, part.before && "or an earlier one, which has expired"].filter(Boolean).join(", ");
    return h("div", { class: begins ? "blame first" : "blame" },
      begins ? h("a", { href: addressOfTurn(part), title: about }, part.before && "\u2264", part.turn) : h("span"),
      h("small", {}, begins && ago(part.time)), h("i", {}, part.name), h("code", {}, part.text || " "));
  };
  return [h("p", { class: "facts" }, plural(parts.length, "line"), ` by ${plural(new Set(parts.map((part) => part.id)).size, "turn")}`),
    h("div", { class: "blames", tabindex: 0, role: "group", "aria-label": "Lines with the turns that wrote them" }, lazily([...parts.keys()], (some) => some.map(row), BLAME_ROWS))];
}

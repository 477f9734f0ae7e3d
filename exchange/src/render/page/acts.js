// Changes: what is asked for, the plan that is looked at before, and the way back.

const sheet = h("dialog", { id: "change", "aria-labelledby": "change-title" });
const outcome = h("p", { id: "outcome", role: "status", hidden: true });
document.body.append(sheet, outcome);

const fullName = (branch) => `${nameOfSession()}/${branch.name}`;

/** Shows a sheet with a title. */
function openSheet(title, ...content) {
  sheet.replaceChildren(h("h2", { id: "change-title", tabindex: -1, autofocus: true }, title), ...content.flat(Infinity).filter(Boolean));
  if (!sheet.open) sheet.showModal();
  byId("change-title").focus();
}

let asking = /** @type {Promise<any> | null} */ (null);

/** Asks for something unless an answer is waited for already: who presses twice has asked once. */
const once = (/** @type {() => Promise<any>} */ work) => (asking ??= work().finally(() => { asking = null; }));

const sheetButton = (label, action, attributes = {}) => h("button", { type: "button", ...attributes, on: { click: action } }, label);
const cancel = () => sheetButton("Cancel", () => sheet.close());

const field = (name, label, attributes = {}) => h("label", { class: "field" }, label, h("input", { name, autocomplete: "off", spellcheck: "false", ...attributes }));

/** A field with what stands in it, which is a text and never markup. */
const filled = (/** @type {HTMLElement} */ label, /** @type {string} */ words) => { label.querySelector("input").value = words; return label; };

/** What each kind of change asks for, and what is asked of the server then. */
const FORMS = {
  fork: ({ turn }) => ({ title: `Fork at turn ${turns[turn].turn}`, fields: [field("name", "Name of the branch", { required: true })], wanted: (given) => ({ session: nameOfSession(), at: turns[turn].id, name: given.name }) }),
  tag: ({ turn }) => ({ title: `Tag turn ${turns[turn].turn}`, fields: [field("name", "Name of the tag", { required: true }), field("message", "What it is for")], wanted: (given) => ({ at: turns[turn].id, ...given }) }),
  pin: ({ turn }) => ({ title: `Pin turn ${turns[turn].turn}`, fields: [field("name", "Name, the id by default"), field("reason", "Reason"), field("expires", "Expires, such as 30d; never by default")], wanted: (given) => ({ at: turns[turn].id, ...given }) }),
  restore: ({ branch, turn }) => ({ wanted: () => ({ branch: fullName(branch), at: turns[turn].id, files: true }) }),
  rollback: ({ branch, turn }) => ({ wanted: () => ({ branch: fullName(branch), turn: turns[turn].turn, files: true }) }),
  merge: ({ branch }) => ({ title: `Merge ${branch.name}`, fields: [
    h("label", { class: "field" }, "Into", h("select", { name: "into" }, branches.filter((other) => other !== branch).map((other) => h("option", { value: fullName(other) }, other.name)))),
    h("label", { class: "field" }, "Of a conversation that both went on with", h("select", { name: "messages" }, [["append", "both, in the order of time"], ["ours", "that of the branch it goes into"], ["theirs", "that of the branch that is merged"]].map(([value, label]) => h("option", { value }, label)))),
  ], wanted: (given) => ({ from: fullName(branch), ...given }) }),
  label: async () => {
    const session = nameOfSession();
    const said = await askJson(`/api/labels?session=${encodeURIComponent(session)}`);
    return { title: "Title and labels", fields: [filled(field("title", "Title; without one that of the agent's client"), said.title || ""), filled(field("labels", "Labels, with spaces between them"), said.labels.join(" "))],
      wanted: ({ title = null, labels = "" }) => ({ session, title, labels: labels.split(/\s+/).filter(Boolean) }) };
  },
};

/** Asks what a change needs to be told, and plans it. */
screens.act = (kind, place) => once(async () => showForm(kind, await FORMS[kind](place))).catch((error) => sayState(error.message));

async function showForm(kind, { title, fields, wanted }) {
  if (!fields) return plan({ kind, ...wanted({}) });
  const form = h("form", { on: { submit: (event) => {
    event.preventDefault();
    const given = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
    screens.plan({ kind, ...wanted(given) });
  } } }, fields, h("p", { class: "acts" }, h("button", { class: "main" }, "Look at the plan"), cancel()));
  openSheet(title, form);
  form.querySelector("input, select").focus();
}

/**
 * Requests the plan of a change and shows it. The user confirms it before it is carried out. `back` returns to
 * the text that the user wrote for it.
 */
const plan = async (wanted, back = null) => {
  const wasOpen = sheet.open;
  try {
    const made = await (await ask("/api/plan", undefined, wanted)).json();
    // Who has cancelled meanwhile is not asked once more.
    if (sheet.open || !wasOpen) showPlan(wanted, made);
  } catch (error) {
    openSheet("This cannot be done", h("p", { class: "failed", role: "alert" }, error.message), h("p", { class: "acts" }, back && sheetButton("Back", back), withoutFiles(wanted), sheetButton("Close", () => sheet.close())));
  }
};

screens.plan = (wanted, back = null) => once(() => plan(wanted, back));

/** What comes back with files can come back without them. */
const withoutFiles = (wanted) => wanted.files && sheetButton("Without files", () => screens.plan({ ...wanted, files: false }));

const SAID_FIRST = { true: ", saved first", false: "" };

function workspacePart(workspace, more) {
  const line = (file) => h("p", { class: `file-line ${file.action}` }, h("b", {}, file.action), h("span", { class: "path" }, file.path), h("small", {}, file.reason, SAID_FIRST[file.unsaved || file.unknown]));
  const count = workspace.files.length + more;
  return part("Files", [h("code", {}, workspace.dir), `, ${count} change, ${workspace.unchanged} stay`], lazily(workspace.files, (some) => some.map(line)), more > 0 && h("p", { class: "quiet" }, `and ${more} more`));
}

/** A plan as it is read before it is done. */
function showPlan(wanted, plan) {
  const move = ({ name, from, to }) => h("p", { class: "file-line" }, h("span", { class: "path" }, name), h("small", {}, from || "new", " \u2192 ", to || "gone"));
  const doIt = sheetButton(plan.destructive ? "Do it: files are overwritten or deleted" : "Do it", () => {
    doIt.disabled = true;
    carryOut(wanted, plan);
  }, { class: plan.destructive ? "main failed" : "main" });
  openSheet(plan.title, h("div", { id: "plan", "data-plan": plan.plan_id },
    plan.notes.map((note_) => h("p", { class: "quiet" }, note_)), plan.moves.map(move),
    plan.workspace && workspacePart(plan.workspace, plan.more_files),
    plan.conflicts.length > 0 && part("Conflicts to decide", String(plan.conflicts.length), plan.conflicts.map((path) => h("p", { class: "path" }, path)))),
  h("p", { class: "acts" }, plan.is_idle ? null : doIt, plan.workspace && withoutFiles(wanted), cancel()));
}

/** Does a plan, and says what came of it, with the way back. */
async function carryOut(wanted, plan) {
  try {
    const done = await (await ask("/api/do", undefined, { plan_id: plan.plan_id })).json();
    sheet.close();
    sayOutcome(done);
    if (screens.redraw) screens.redraw();
    else if (here.route === "conflicts") show(here.hash);
  } catch (error) {
    openSheet("Nothing was done", h("p", { class: "failed", role: "alert" }, error.message), h("p", { class: "acts" }, sheetButton("Look again", () => screens.plan(wanted), { class: "main" }), cancel()));
  }
}

function sayOutcome(done) {
  const close = () => { outcome.hidden = true; };
  const to = done.branch && done.branch.split("/");
  outcome.replaceChildren(...[h("span", {}, done.said), done.failed > 0 && h("b", { class: "failed" }, `${plural(done.failed, "file")} could not be written`),
    done.conflicts > 0 && to && h("a", { class: "button", href: `${addressOf(to[0])}#conflicts@${encodeURIComponent(to[1])}` }, `Decide ${plural(done.conflicts, "conflict")}`),
    to && !done.conflicts && h("a", { class: "button", href: `${addressOf(to[0])}#overview@${encodeURIComponent(to[1])}` }, `Open ${to[1]}`),
    done.operation !== null && sheetButton("Undo", () => once(() => takeBack(done.operation)), { class: "copy" }), sheetButton("\u00d7", close, { class: "copy", "aria-label": "Close" })].filter(Boolean));
  outcome.dataset.operation = String(done.operation);
  outcome.hidden = false;
}

/** Undoes an operation in one step; if that touches unsaved files, its plan is shown first. */
async function takeBack(operation) {
  const wanted = { kind: "undo", operation, files: true };
  try {
    const plan = await (await ask("/api/plan", undefined, wanted)).json();
    const isUnsaved = plan.more_files > 0 || plan.workspace?.files.some((file) => file.unsaved || file.unknown);
    await (isUnsaved ? showPlan(wanted, plan) : carryOut(wanted, plan));
  } catch (error) {
    openSheet("This cannot be undone", h("p", { class: "failed", role: "alert" }, error.message), h("p", { class: "acts" }, sheetButton("Close", () => sheet.close())));
  }
}

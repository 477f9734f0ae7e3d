// Calls of tools as cards: shells with their exit, edits and patches as differences, lists of tasks.

const OPEN_LINES = 8;
const OPEN_DIFF = 40;

const PREVIEWS = ["command", "cmd", "file_path", "path", "filePath", "pattern", "query", "subject", "description", "prompt", "url", "keystrokes"];

function valueOf(input) {
  try {
    const value = JSON.parse(input);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

const text = (value) => (typeof value === "string" ? value : undefined);

/** The edits that a call asks for, as pairs of texts. */
function editsOf(value) {
  const pair = (edit) => {
    const before = text(edit?.old_string ?? edit?.oldString ?? edit?.old_str ?? edit?.oldText);
    const after = text(edit?.new_string ?? edit?.newString ?? edit?.new_str ?? edit?.newText);
    return before !== undefined && after !== undefined ? [before, after] : null;
  };
  const single = pair(value);
  return single ? [single] : (Array.isArray(value.edits) ? value.edits : []).map(pair).filter(Boolean);
}

/** The command that a shell is given, without the shell. */
function commandOf(value) {
  const command = value.command ?? value.cmd ?? value.script ?? value.keystrokes;
  if (Array.isArray(command) && command.every((word) => typeof word === "string")) {
    return /^(\/\S*\/)?(ba|z)?sh$/.test(command[0]) && /^-\w*c$/.test(command[1]) ? command.slice(2).join(" ") : command.join(" ");
  }
  return text(command);
}

/** The tasks of a list, and how far each is. */
function tasksOf(value) {
  const list = value.todos ?? value.plan ?? value.tasks ?? value.todo_list;
  if (!Array.isArray(list) || !list.length) return null;
  const tasks = list.map((task) => ({ what: text(task?.content ?? task?.step ?? task?.title ?? task?.task), state: String(task?.status ?? (task?.done ? "completed" : "pending")) }));
  return tasks.every((task) => task.what !== undefined) ? tasks : null;
}

const EXIT = /(?:exit(?:ed with)?[ _]?(?:code|status)\W{1,4}|^Exit code )(-?\d{1,3})\b/i;

/** What Codex puts before the output of a command. */
const CODEX = /^(?:Chunk ID: .*\n)?Wall time: ([\d.]+) seconds\nProcess exited with code (-?\d+)\n(?:Original token count: .*\n)?Output:\n?/;

/** What a shell answered: its output, its exit code and time where they are said. */
function outcomeOf(output) {
  const value = output.startsWith("{") ? valueOf(output) : null;
  const code = value?.metadata?.exit_code ?? value?.exit_code;
  if (typeof value?.output === "string" && typeof code === "number") return { output: value.output, code, seconds: value.metadata?.duration_seconds };
  const codex = CODEX.exec(output);
  if (codex) return { output: output.slice(codex[0].length), code: Number(codex[2]), seconds: Number(codex[1]) >= 1 ? Number(Number(codex[1]).toFixed(1)) : null };
  const found = EXIT.exec(output.slice(0, 300)) || EXIT.exec(output.slice(-300));
  return { output, code: found ? Number(found[1]) : null, seconds: null };
}

const shownPictures = (pictures) =>
  (pictures || []).map((address) =>
    address && /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$/.test(address)
      ? h("img", { src: address, alt: "picture in the message", loading: "lazy" })
      : h("p", { class: "quiet" }, "a picture that is not in this file"));

const pathOf = (value) => text(value.file_path ?? value.filePath ?? value.path ?? value.filename ?? value.notebook_path);

function argumentRows(value, without = []) {
  const fields = Object.entries(value).filter(([name]) => !without.includes(name));
  return fields.map(([name, field]) => {
    const words = typeof field === "string" ? field : JSON.stringify(field, null, 1);
    return h("div", { class: "argument" }, h("span", {}, name), words.includes("\n") || words.length > 90 ? plainBlock(words) : h("code", {}, words));
  });
}

/**
 * What a card shows: `{sign, name, what, facts, body, open}`, and the paths that it writes.
 * @returns {any}
 */
function cardOf(name, input, answer = /** @type {any} */ (null)) {
  const value = valueOf(input);
  if (!value) return isPatch(input) ? patchCard(name, input) : { name, what: firstLine(input, 140), facts: [], body: () => (input ? plainBlock(input) : []) };
  const [path, command, tasks, edits] = [pathOf(value), commandOf(value), tasksOf(value), editsOf(value)];
  const patch = [value.patch, value.input, value.diff, command?.includes("*** Begin Patch") && command.slice(command.indexOf("*** Begin Patch"))].find((words) => typeof words === "string" && isPatch(words));
  if (tasks) return taskList(name, tasks);
  if (edits.length && path) return editCard(name, path, edits);
  if (patch) return patchCard(name, patch);
  const content = text(value.content ?? value.file_text ?? value.contents);
  if (content !== undefined && path) return { sign: "+", name, what: path, paths: [path], facts: [plural(countLines(content), "line")], body: () => readable(content, (part) => codeBlock(part, path.split(".").at(-1))) };
  if (command !== undefined && !path) return shellCard(name, value, command, answer);
  const preview = PREVIEWS.map((key) => value[key]).find((found) => typeof found === "string") ?? Object.values(value).find((found) => typeof found === "string") ?? "";
  const facts = answer && /read|view|cat|open/i.test(name) && path ? [plural(countLines(answer[1]), "line")] : [];
  return { name, what: firstLine(preview, 140), facts, body: () => argumentRows(value), language: path && languageOf(path) };
}

function shellCard(name, value, command, answer) {
  const { output, code, seconds } = answer ? outcomeOf(answer[1]) : { output: null, code: null, seconds: null };
  const isLong = command.includes("\n") || command.length > 100;
  const facts = [code !== null && h("span", { class: code === 0 ? "passed" : "failed" }, `exit ${code}`), seconds && `${seconds} s`, output && countLines(output) > OPEN_LINES && plural(countLines(output), "line")];
  return { sign: "$", failed: Boolean(code), name, what: command.trim().replace(/\s*\n\s*/g, " \u23ce ").slice(0, 240), facts, shell: true, output,
    body: () => [isLong && codeBlock(command, "sh"), argumentRows(value, ["command", "cmd", "script", "keystrokes"])] };
}

function editCard(name, path, edits) {
  const compared = edits.map(([before, after]) => compareTexts(before, after));
  const sum = (side) => compared.reduce((total, one) => total + one[side], 0);
  return { sign: "~", name, what: path, paths: [path], facts: [h("span", {}, lineCounts(sum("added"), sum("removed")))], body: () => compared.map((one) => diffBlock(one)), open: sum("added") + sum("removed") <= OPEN_DIFF };
}

function patchCard(name, patch) {
  const files = patchFiles(patch);
  const sum = (side) => files.reduce((total, file) => total + file[side], 0);
  const what = files.length === 1 ? files[0].path : plural(files.length, "file");
  const body = () => files.map((file) => [files.length > 1 && h("p", { class: "path" }, file.path), rowsBlock(file.rows)]);
  return { sign: "~", name, what, paths: files.map((file) => file.path), facts: [h("span", {}, lineCounts(sum("added"), sum("removed")))], body, open: sum("added") + sum("removed") <= OPEN_DIFF };
}

function taskList(name, tasks) {
  const done = tasks.filter((task) => /^(completed|done)$/.test(task.state)).length;
  const mark = (state) => (/^(completed|done)$/.test(state) ? ["\u2611", "done"] : /progress|active/.test(state) ? ["\u25d0", "at work"] : ["\u2610", "to do"]);
  const item = ({ what, state }) => h("li", { class: `task ${/^(completed|done)$/.test(state) ? "done" : ""}` }, h("span", { class: "box", role: "img", "aria-label": mark(state)[1] }, mark(state)[0]), h("span", {}, what));
  return { sign: "\u2611", name, what: `${done} of ${tasks.length} done`, facts: [], body: () => h("ul", { class: "tasks" }, tasks.map(item)), open: true };
}

/** A result that stands alone or in a card. */
function resultBlock([, words, isError, pictures], language = null) {
  const lines = countLines(words);
  if (!words.trim() && !(pictures || []).length) return isError ? h("p", { class: "failed" }, "failed without a word") : [];
  const shown = () => [language ? readable(words, (part) => h("pre", { tabindex: 0, role: "group", "aria-label": "Result" }, coloured(part, language))) : plainBlock(words), shownPictures(pictures)];
  const about = [h("span", { class: "sign" }, isError ? "\u2717" : "\u21b3"), h("code", {}, firstLine(bareOf(words), 140) || "a picture"), isError && h("small", { class: "failed" }, "failed"), lines > 1 && h("small", {}, plural(lines, "line"))];
  return fold({ class: `result${isError ? " failed" : ""}` }, about, shown, { words: () => words, open: (pictures || []).length > 0 });
}

const bareOf = (words) => (hasEscapes(words) ? words.replace(ESCAPE, "") : words);

/** The output of a shell, open as far as a few lines go: of one that failed the last, since they say why. */
function outputBlock(words, pictures, failed) {
  return h("div", { class: "output" }, words.trim() ? plainBlock(words.replace(/\n+$/, ""), {}, OPEN_LINES, failed) : [], shownPictures(pictures));
}

/** A call with its result; `inside` is the conversation of the agent that it started, `written` what it did to files. */
function callBlock([, name, input], result, inside, written) {
  const failed = Boolean(result?.[2]);
  const card = { ...cardOf(name || "tool", input, result), ...(!failed && written) };
  const summary = [h("span", { class: "sign", "aria-hidden": "true" }, inside ? "@" : card.sign || "\u203a"), h("b", {}, card.name), h("code", { title: card.what }, card.what), h("small", {}, [...card.facts, inside?.about, failed && h("span", { class: "failed" }, "failed")].filter(Boolean).map((fact, at) => [at > 0 && " \u00b7 ", fact]))];
  const body = () => [card.body(), inside?.make()];
  return h("div", { class: `card${failed ? " failed" : ""}`, "data-kind": "tools" },
    fold({}, summary, body, { open: Boolean(card.open), words: () => input }),
    result && (card.shell ? outputBlock(card.output, result[3], failed || card.failed) : resultBlock(result, card.language)));
}

// What stands in the middle: a turn, the difference of two, all of a branch, the strategies.

const hashOf = (branch, turn) => `#turn-${turns[turn].turn}${suffix(branch)}`;
const suffix = (branch) => (branch.index === 0 ? "" : `@${encodeURIComponent(branch.name)}`);
const diffHash = (a, b) => `#diff-${turns[a.turn].turn}${suffix(a.branch)}..${turns[b.turn].turn}${suffix(b.branch)}`;

const PREVIEWS = ["command", "cmd", "file_path", "path", "filePath", "pattern", "query", "description", "prompt", "url", "keystrokes"];

const NAMES = { user: "User", assistant: "Assistant", system: "System", tool: "Tool", other: "Note" };

function valueOf(input) {
  try {
    const value = JSON.parse(input);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

function callBody(input) {
  const value = valueOf(input);
  if (!value) return input === "" ? [] : plainBlock(input);
  const [before, after] = [value.old_string ?? value.oldString, value.new_string ?? value.newString];
  const isEdit = typeof before === "string" && typeof after === "string";
  const fields = Object.entries(value).filter(([name]) => !(isEdit && /^(old|new)_?string$/i.test(name)));
  const rows = fields.map(([name, field]) => {
    const text = typeof field === "string" ? field : JSON.stringify(field, null, 1);
    return h("div", { class: "argument" }, h("span", {}, name), text.includes("\n") || text.length > 90 ? plainBlock(text) : h("code", {}, text));
  });
  return isEdit ? [rows, diffBlock(compareTexts(before, after))] : rows;
}

function resultBlock([, text, isError, pictures]) {
  const lines = text.split("\n").length;
  const about = [h("span", { class: "sign" }, isError ? "\u2717" : "\u21b3"), h("code", {}, firstLine(text, 110) || "nothing"), lines > 1 && h("small", {}, plural(lines, "line"))];
  return fold({ class: `result${isError ? " failed" : ""}` }, about, () => [plainBlock(text), shownPictures(pictures)]);
}

const shownPictures = (pictures) =>
  (pictures || []).map((address) =>
    address && /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$/.test(address)
      ? h("img", { src: address, alt: "picture in the message", loading: "lazy" })
      : h("p", { class: "quiet" }, "a picture that is not in this file"));

function callBlock([, name, input], result) {
  const value = valueOf(input);
  const preview = value ? PREVIEWS.map((key) => value[key]).find((found) => typeof found === "string") : input;
  const summary = [h("b", {}, name || "tool"), h("code", {}, firstLine(preview || "", 110))];
  return h("div", { class: "call" }, fold({}, summary, () => callBody(input)), result && resultBlock(result));
}

/** A message; `paired` are results by call that are shown with it. */
function messageBlock(number, paired, extra = "") {
  const message = messageAt(number);
  const parts = [];
  if (message.thinking) {
    parts.push(fold({ class: "thinking" }, ["Thinking ", h("small", {}, firstLine(message.thinking, 80))], () => proseBlock(message.thinking)));
  }
  if (message.text) parts.push(message.role === "tool" ? plainBlock(message.text) : proseBlock(message.text));
  parts.push(shownPictures(message.pictures));
  for (const call of message.calls || []) parts.push(callBlock(call, paired.get(call[0])));
  for (const result of message.results || []) if (paired.get(result[0]) !== result) parts.push(resultBlock(result));
  if (!parts.flat().length) parts.push(h("p", { class: "quiet" }, "nothing to read"));
  const [read, wrote] = message.tokens || [0, 0];
  const tokens = read + wrote > 0 && h("small", { title: `${plural(read, "token")} in, ${wrote.toLocaleString("en")} out` }, `${short(read)} \u2192 ${short(wrote)}`);
  return h("article", { class: `message ${message.role} ${extra}`, id: `message-${number}`, "aria-label": NAMES[message.role] },
    h("header", {}, h("b", {}, NAMES[message.role] || message.role), message.origin && h("small", {}, `from ${message.origin}`), tokens),
    h("div", { class: "body" }, parts));
}

/** Messages one below the other, each result with its call where both are there. */
function messageBlocks(numbers, extra) {
  const calls = new Set();
  const paired = new Map();
  for (const number of numbers) {
    const message = messageAt(number);
    for (const [id] of message.calls || []) if (id) calls.add(id);
    for (const result of message.results || []) if (calls.has(result[0]) && !paired.has(result[0])) paired.set(result[0], result);
  }
  const isShown = (number) => {
    const message = messageAt(number);
    return message.text || message.thinking || message.calls || !message.results || message.results.some((result) => paired.get(result[0]) !== result);
  };
  return numbers.filter(isShown).map((number) => messageBlock(number, paired, extra));
}

function unshown(value) {
  return h("p", { class: "quiet" }, `${value.why === "binary" ? "not text" : "too large to be in this file"}: ${bytes(value.bytes)}, ${value.id.slice(0, 12)}`);
}

/** A file or value that changed; `open` when there is not too much of it. */
function changeBlock(path, before, after, note, open) {
  const [a, b] = [before, after].map((number) => (number === undefined || number === null ? "" : textAt(number)));
  const isText = typeof a === "string" && typeof b === "string";
  const compared = isText ? compareTexts(a, b) : null;
  const kind = before === undefined || before === null ? "new" : after === undefined || after === null ? "gone" : "changed";
  const counts = compared && [h("span", { class: "plus" }, `+${compared.added}`), h("span", { class: "minus" }, `\u2212${compared.removed}`)];
  const isShort = compared && compared.added + compared.removed <= 60;
  const block = fold({ class: `file ${kind}`, "data-path": path }, [h("span", { class: "path" }, path), note && h("small", {}, note), kind !== "changed" && h("small", {}, kind), counts],
    () => (compared ? diffBlock(compared) : [a, b].filter((side) => typeof side === "object").map(unshown)), open && isShort);
  block.lines = compared ? [compared.added, compared.removed] : [0, 0];
  return block;
}

const part = (title, count, ...children) => h("section", { class: "part" }, h("h3", {}, title, count !== null && h("small", {}, count)), children);

function agentsPart(change) {
  return Object.entries(change.lists).filter(([section]) => isConversation(section)).map(([section, splices]) => {
    const agent = agentOf(section);
    const added = splices.flatMap(([, , numbers]) => numbers);
    const dropped = splices.reduce((sum, [, removed]) => sum + removed, 0);
    const before = stateAt(change.base)?.lists.get(section) || [];
    const gone = () => messageBlocks(splices.flatMap(([at, removed]) => before.slice(at, at + removed)), "gone");
    return h("section", { class: "talk", "aria-label": `Messages of ${agent}` },
      agent !== "main" && h("h3", {}, agent, h("small", {}, plural(added.length, "message"))),
      dropped > 0 && fold({ class: "dropped" }, [`${plural(dropped, "message")} left the context`], gone),
      messageBlocks(added));
  });
}

function filesPart(change) {
  const before = stateAt(change.base);
  const blocks = change.files.map(([path, text, mode], index) =>
    changeBlock(path, before?.files.get(path)?.text, text, mode && mode !== "file" ? mode : null, change.files.length <= 8 && index < 8));
  if (!blocks.length) return [];
  const sum = (side) => blocks.reduce((n, block) => n + block.lines[side], 0);
  return part("Files", `${blocks.length}, +${sum(0)} \u2212${sum(1)}`, blocks);
}

function notesPart(change) {
  const before = stateAt(change.base);
  const blocks = change.entries.map(([section, key, text]) => {
    const place = key ? `${section}/${key}` : section;
    return changeBlock(place, before?.entries.get(place), text, null, section !== "meta" && !section.endsWith("system-prompt"));
  });
  for (const [section, splices] of Object.entries(change.lists).filter(([name]) => !isConversation(name))) {
    const old = before?.lists.get(section) || [];
    for (const [at, removed, added] of splices) {
      for (let index = 0; index < Math.max(removed, added.length); index += 1) {
        blocks.push(changeBlock(`${section}/${at + index}`, index < removed ? old[at + index] : undefined, added[index], null, true));
      }
    }
  }
  return blocks.length ? part("Scratchpad, memory, state", String(blocks.length), blocks) : [];
}

/** All that an agent would be given after a turn, folded. */
function contextPart(turn) {
  const make = () => {
    const state = stateAt(turn);
    const lists = [...state.lists].map(([section, numbers]) => fold({ class: "file" }, [h("span", { class: "path" }, section), h("small", {}, plural(numbers.length, isConversation(section) ? "message" : "entry", isConversation(section) ? "messages" : "entries"))],
      () => (isConversation(section) ? lazily(numbers, (some) => messageBlocks(some)) : numbers.map((number) => whole(number)))));
    const whole = (number) => (typeof textAt(number) === "string" ? plainBlock(textAt(number)) : unshown(textAt(number)));
    const one = (path, number, note) => fold({ class: "file" }, [h("span", { class: "path" }, path), h("small", {}, note)], () => whole(number));
    const files = [...state.files].sort(([a], [b]) => (a < b ? -1 : 1)).map(([path, { text, size }]) => one(`${FILES}/${path}`, text, bytes(size)));
    const entries = [...state.entries].map(([place, text]) => one(place, text, ""));
    return [lists, entries, lazily(files, (some) => some)];
  };
  return part("Context after this turn", null, fold({ class: "file whole" }, [h("span", { class: "path" }, "everything that the agent is given next")], make));
}

/** Makes elements some at a time, with a button for the next ones. */
function lazily(items, make, some = 60) {
  const box = h("div", {});
  let shown = 0;
  const more = h("button", { class: "more", type: "button", on: { click: () => next() } });
  const next = () => {
    more.remove();
    box.append(...make(items.slice(shown, shown + some)));
    shown += some;
    if (shown < items.length) {
      more.textContent = `Show ${plural(Math.min(some, items.length - shown), "more", "more")} of ${items.length - shown}`;
      box.append(more);
    }
  };
  next();
  return box;
}

function factsOf(turn) {
  return [
    h("time", { datetime: turn.time, title: turn.time }, shownTime(turn)),
    turn.model && h("span", {}, turn.model),
    turn.agent && turn.agent !== turn.model && h("span", {}, turn.agent),
    isSpecial(turn) && h("span", { class: "badge" }, turn.trigger),
    turn.tokens && h("span", {}, `${short(turn.tokens[0])} tokens in, ${short(turn.tokens[1])} out`),
    turn.cost > 0 && h("span", {}, dollars(turn.cost)),
    h("code", { title: turn.id }, turn.id.slice(0, 10)),
  ].filter(Boolean);
}

const dollars = (cost) => (cost > 0 && cost < 0.01 ? `$${cost.toFixed(4)}` : `$${cost.toFixed(2)}`);

const isSpecial = (turn) => turn.trigger !== "turn" && turn.trigger !== "manual";

const shownTime = (turn) => turn.time.replace("T", " ").replace(/(:\d\d)\.\d+/, "$1").replace(/Z$/, " UTC");

/** A turn: what was said, and what changed. */
function turnBlock(branch, index, isAlone) {
  const turn = turns[index];
  const meta = Object.entries(turn.meta || {});
  const title = h("h2", {}, isAlone ? `Turn ${turn.turn}` : h("a", { href: hashOf(branch, index) }, `Turn ${turn.turn}`));
  const before = turn.change?.base;
  const head = h("header", { class: "turn-head" },
    h("div", { class: "line" }, title, isAlone && neighbours(branch, index)),
    h("p", { class: "facts" }, factsOf(turn), isAlone && before !== undefined && before !== null && h("a", { href: diffHash({ branch, turn: before }, { branch, turn: index }) }, "difference from the turn before")),
    turn.trigger !== "turn" && turn.message && h("p", { class: "what" }, turn.message),
    meta.length > 0 && fold({ class: "meta" }, [plural(meta.length, "fact about this snapshot", "facts about this snapshot")], () => h("dl", {}, meta.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))));
  if (!turn.change) {
    return h("article", { class: "turn" }, head, h("p", { class: "quiet" }, "What this turn held has expired: retention kept only that it was there."));
  }
  const parts = [agentsPart(turn.change), filesPart(turn.change), notesPart(turn.change)];
  const isEmpty = parts.flat(Infinity).filter(Boolean).length === 0;
  return h("article", { class: "turn", "aria-label": `Turn ${turn.turn}` }, head, parts, isEmpty && h("p", { class: "quiet" }, "Nothing changed."), isAlone && [contextPart(index), neighbours(branch, index)]);
}

function neighbours(branch, index) {
  const at = branch.places.get(index);
  const link = (to, text, label) => (to === undefined ? h("span", { class: "off", "aria-hidden": "true" }, text) : h("a", { href: hashOf(branch, to), "aria-label": label }, text));
  return h("nav", { class: "steps", "aria-label": "Turns before and after" }, link(branch.line[at - 1], "\u2190", "turn before"), link(branch.line[at + 1], "\u2192", "turn after"));
}

/** All turns of a branch, made as one scrolls. */
function wholeView(branch) {
  const box = h("div", { class: "all" }, h("h2", {}, branch.name, h("small", {}, plural(branch.line.length, "turn"))));
  const end = h("div", { class: "end" });
  let shown = 0;
  const next = (some) => {
    for (const index of branch.line.slice(shown, shown + some)) end.before(turnBlock(branch, index, false));
    shown += some;
    if (shown >= branch.line.length) watcher.disconnect();
  };
  const watcher = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && next(8), { rootMargin: "1200px" });
  box.append(end);
  watcher.observe(end);
  box.finish = () => next(branch.line.length);
  return box;
}

/** The difference of any two turns. */
function diffView(a, b) {
  const pick = (side, chosen, other, build) => {
    const names = h("select", { "aria-label": `${side} branch` }, branches.map((branch) => h("option", { value: branch.index, selected: branch === chosen.branch }, branch.name)));
    const number = h("input", { type: "number", "aria-label": `${side} turn`, value: turns[chosen.turn].turn, min: 1 });
    const go = () => {
      const branch = branches[Number(names.value)];
      go(build({ branch, turn: turnNumbered(branch, Number(number.value)) }));
    };
    names.addEventListener("change", go);
    number.addEventListener("change", go);
    return h("span", { class: "pick" }, h("small", {}, side), branches.length > 1 && names, number);
  };
  const head = h("header", { class: "turn-head" }, h("h2", {}, "Difference"),
    h("p", { class: "picks" }, pick("from", a, b, (chosen) => diffHash(chosen, b)), pick("to", b, a, (chosen) => diffHash(a, chosen)),
      h("a", { class: "button", href: diffHash(b, a) }, "swap")));
  const [before, after] = [stateAt(a.turn), stateAt(b.turn)];
  if (!before || !after) return h("article", { class: "turn" }, head, h("p", { class: "quiet" }, "One of these turns has expired."));
  const parts = [filesDiff(before, after), entriesDiff(before, after), talkDiff(before, after)];
  const isSame = parts.flat(Infinity).filter(Boolean).length === 0;
  return h("article", { class: "turn" }, head, parts, isSame && h("p", { class: "quiet" }, "No difference."));
}

const changedKeys = (before, after, same) =>
  [...new Set([...before.keys(), ...after.keys()])].filter((key) => !same(before.get(key), after.get(key))).sort();

function filesDiff(before, after) {
  const paths = changedKeys(before.files, after.files, (x, y) => x?.text === y?.text && x?.mode === y?.mode);
  if (!paths.length) return [];
  const blocks = paths.map((path, index) => changeBlock(path, before.files.get(path)?.text, after.files.get(path)?.text, null, index < 6));
  const sum = (side) => blocks.reduce((n, block) => n + block.lines[side], 0);
  return part("Files", `${paths.length}, +${sum(0)} \u2212${sum(1)}`, blocks);
}

function entriesDiff(before, after) {
  const places = changedKeys(before.entries, after.entries, (x, y) => x === y);
  const lists = changedKeys(before.lists, after.lists, (x, y) => x && y && x.length === y.length && x.every((n, at) => n === y[at])).filter((name) => !isConversation(name));
  const listed = (state, section) => (state.lists.get(section) || []).map((number) => (typeof textAt(number) === "string" ? textAt(number) : textAt(number).id)).join("\n");
  const blocks = places.map((place) => changeBlock(place, before.entries.get(place), after.entries.get(place), null, !place.startsWith("meta/")));
  const more = lists.map((section) => fold({ class: "file" }, [h("span", { class: "path" }, section)], () => diffBlock(compareTexts(listed(before, section), listed(after, section)))));
  return blocks.length + more.length ? part("Scratchpad, memory, state", String(blocks.length + more.length), blocks, more) : [];
}

function talkDiff(before, after) {
  const sections = changedKeys(before.lists, after.lists, (x, y) => x === y).filter(isConversation);
  return sections.map((section) => {
    const [a, b] = [before.lists.get(section) || [], after.lists.get(section) || []];
    const stretches = differing(a, b);
    const gone = stretches.flatMap(([a0, a1]) => a.slice(a0, a1));
    const added = stretches.flatMap(([, , b0, b1]) => b.slice(b0, b1));
    if (!gone.length && !added.length) return [];
    return part(`Messages of ${agentOf(section)}`, `+${added.length} \u2212${gone.length}`,
      gone.length > 0 && fold({ class: "dropped" }, [`${plural(gone.length, "message")} only before`], () => lazily(gone, (some) => messageBlocks(some, "gone"))),
      added.length > 0 && fold({ class: "dropped added" }, [`${plural(added.length, "message")} only after`], () => lazily(added, (some) => messageBlocks(some)), added.length <= 12));
  });
}

/** The strategies side by side, as `compare` counts them. */
function compareView() {
  const compared = header.compare;
  if (!compared) return h("article", { class: "turn" }, h("h2", {}, "Compare"), h("p", { class: "quiet" }, "There is one branch only."));
  const strategies = compared.strategies;
  const checks = [...new Set(strategies.flatMap((strategy) => Object.keys(strategy.checks)))].sort();
  const columns = [
    ["turns", (x) => x.turns], ["messages", (x) => x.messages], ["tools", (x) => x.tool_calls], ["errors", (x) => x.tool_errors],
    ["tokens", (x) => (x.tokens ? x.tokens.input + x.tokens.output : null), short], ["cost", (x) => x.usage?.cost_usd ?? null, dollars],
    ["files", (x) => x.files_changed],
    ["added", (x) => x.lines_added], ["removed", (x) => x.lines_removed], ["time", (x) => x.elapsed_ms, duration],
  ];
  const cell = (value, most, show = (n) => n.toLocaleString("en")) =>
    h("td", {}, value === null ? "\u2013" : [h("span", { class: "fill", "width%": most ? (76 * value) / most : 0 }), h("span", {}, show(value))]);
  const row = (strategy) => {
    const branch = branches.find((found) => turns[found.line.at(-1)].id === strategy.id && found.name === strategy.name) || branches.find((found) => turns[found.line.at(-1)].id === strategy.id);
    return h("tr", { class: branch && color(branch) }, h("th", { scope: "row" }, branch ? h("a", { href: hashOf(branch, branch.line.at(-1)) }, strategy.name) : strategy.name),
      columns.map(([, value, show]) => cell(value(strategy), Math.max(...strategies.map((other) => value(other) || 0)), show)),
      checks.map((name) => h("td", { class: strategy.checks[name] === true ? "passed" : strategy.checks[name] === false ? "failed" : "" }, strategy.checks[name] === true ? "\u2713 passed" : strategy.checks[name] === false ? "\u2717 failed" : "\u2013")));
  };
  const since = compared.fork ? `Since the fork at turn ${compared.fork.turn}.` : "No common snapshot: counted from the first turn.";
  const [first, ...others] = branches;
  return h("article", { class: "turn" }, h("header", { class: "turn-head" }, h("h2", {}, "Strategies"), h("p", { class: "facts" }, since)),
    h("div", { class: "wide" }, h("table", { class: "compare" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "strategy"), columns.map(([name]) => h("th", { scope: "col" }, name)), checks.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, strategies.map(row)))),
    others.length > 0 && part("Differences of the last turns", null, h("p", { class: "links" }, others.map((branch) => h("a", { class: "button", href: diffHash({ branch: first, turn: first.line.at(-1) }, { branch, turn: branch.line.at(-1) }) }, `${first.name} \u2192 ${branch.name}`)))));
}

function duration(ms) {
  const seconds = Math.floor(ms / 1000);
  const [minutes, hours, days] = [Math.floor(seconds / 60), Math.floor(seconds / 3600), Math.floor(seconds / 86400)];
  if (minutes === 0) return ms < 1000 ? `${ms}ms` : `${seconds}s`;
  if (hours === 0) return `${minutes}m${String(seconds % 60).padStart(2, "0")}s`;
  return days === 0 ? `${hours}h${String(minutes % 60).padStart(2, "0")}m` : `${days}d${String(hours % 24).padStart(2, "0")}h`;
}

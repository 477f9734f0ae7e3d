// Messages: who speaks, what of it is for people, each result with its call.

const NAMES = { user: "You", assistant: "Agent", system: "System", tool: "Tool", other: "Note" };

/** Who a message is of: much that interfaces call user was written by a client. */
const speakerOf = (message) => (message.role === "user" && !message.prompt ? ["client", "Client"] : [message.role, NAMES[message.role] || message.role]);

const ADDED = /<(system-reminder|local-command-caveat|environment_context|user_instructions|ide_opened_file|ide_selection|permissions instructions|INSTRUCTIONS)>([^]*?)<\/\1>/g;
const COMMAND = /<command-name>\s*([^<]*?)\s*<\/command-name>/;

/** The text of a message: commands as they were typed, and folds for what a client added to it. */
function saidBlocks(words) {
  const command = COMMAND.exec(words);
  if (command) {
    const given = /<command-args>\s*([^]*?)\s*<\/command-args>/.exec(words)?.[1] || "";
    return h("p", { class: "command" }, h("code", {}, `${command[1].startsWith("/") ? "" : "/"}${command[1]} ${given}`.trim()));
  }
  const output = /^\s*<local-command-stdout>([^]*?)<\/local-command-stdout>\s*$/.exec(words);
  if (output) return output[1].trim() ? plainBlock(output[1]) : [];
  const parts = [];
  let at = 0;
  for (const found of words.matchAll(ADDED)) {
    if (words.slice(at, found.index).trim()) parts.push(proseBlock(words.slice(at, found.index)));
    parts.push(fold({ class: "thinking" }, ["Added by the client ", h("small", {}, found[1])], () => proseBlock(found[2]), { words: () => found[2] }));
    at = found.index + found[0].length;
  }
  if (words.slice(at).trim()) parts.push(proseBlock(words.slice(at)));
  return parts;
}

function thinkingBlock(words) {
  return h("div", { "data-kind": "thinking" }, fold({ class: "thinking" }, ["Thinking ", h("small", {}, firstLine(words, 100))], () => proseBlock(words), { words: () => words }));
}

/** The words of a message without what stands for its pictures. */
const wordsOf = (message) => ((message.pictures || []).length ? message.text?.replaceAll("[image]", "").trim() : message.text) || "";

const LONG_ADDED = 900;

/** A message; `paired` are results by call that are shown with it, `before` is who spoke last. */
function messageBlock(number, { paired, extra = "", before = null, inside = (/** @type {any} */ _call) => null, written = (/** @type {any} */ _call) => null }) {
  const message = messageAt(number);
  const [kind, name] = speakerOf(message);
  const words = wordsOf(message);
  const parts = [];
  if (message.thinking) parts.push(thinkingBlock(message.thinking));
  if (words) {
    const isAside = kind === "system" || kind === "client" || kind === "other";
    const block = () => (kind === "tool" ? plainBlock(words, {}, 20) : saidBlocks(words));
    parts.push(isAside && words.length > LONG_ADDED
      ? fold({ class: "thinking" }, [`${name}: `, h("small", {}, firstLine(words, 100)), h("small", { class: "end" }, plural(countLines(words), "line"))], block, { words: () => words })
      : h("div", { class: kind === "assistant" && /^API Error\b/.test(words) ? "said failed" : "said", "data-kind": kind === "assistant" ? "answers" : "talk" }, block()));
  }
  parts.push(shownPictures(message.pictures));
  for (const call of message.calls || []) parts.push(callBlock(call, paired.get(call[0]), inside(call), written(call)));
  for (const result of message.results || []) if (paired.get(result[0]) !== result) parts.push(h("div", { "data-kind": "tools" }, resultBlock(result)));
  if (!parts.flat(Infinity).filter(Boolean).length) return null;
  const label = [kind, message.origin].join("/") === before || (kind === "assistant" && !message.origin) ? null : h("header", {}, h("b", {}, name), message.origin && h("small", {}, ` from ${message.origin}`));
  return h("article", { class: `message ${kind} ${extra}`, id: `message-${number}`, "aria-label": name, "data-speaker": [kind, message.origin].join("/") },
    label, h("div", { class: "body" }, parts), words && kind !== "tool" && copyButton("Copy", words, `Copy what ${name} said`));
}

/** Messages one below the other, each result with its call where both are there. */
function messageBlocks(numbers, { extra = "", inside = undefined, written = undefined } = {}) {
  const calls = new Set();
  const paired = new Map();
  for (const number of numbers) {
    const message = messageAt(number);
    for (const [id] of message.calls || []) if (id) calls.add(id);
    for (const result of message.results || []) if (calls.has(result[0]) && !paired.has(result[0])) paired.set(result[0], result);
  }
  const blocks = [];
  let before = null;
  for (const number of numbers) {
    const block = messageBlock(number, { paired, extra, before, inside, written });
    if (!block) continue;
    before = block.dataset.speaker;
    blocks.push(block);
  }
  return blocks;
}

// Agents that an agent starts: their conversation stands in the call.

const started = new WeakMap();

/** The sections of agents of a branch by the words that they were started with. */
function agentsOf(branch) {
  if (!started.has(branch)) {
    const found = new Map();
    const { agents } = storyOf(branch);
    const lists = agents.size ? stateAt(branch.line.at(-1))?.lists : null;
    for (const section of agents) {
      const numbers = lists?.get(section) || [];
      const words = numbers.length ? wordsOf(messageAt(numbers[0])).trim() : "";
      if (words) found.set(words, { section, numbers });
    }
    started.set(branch, found);
  }
  return started.get(branch);
}

/** The conversation that a call started, with a way to show it. */
function insideOf(branch) {
  if (!agentsOf(branch).size) return () => null;
  return ([, , input]) => {
    const prompt = text(valueOf(input)?.prompt)?.trim();
    const agent = prompt && agentsOf(branch).get(prompt);
    if (!agent) return null;
    const calls = agent.numbers.reduce((sum, number) => sum + (messageAt(number).calls || []).length, 0);
    return { about: `${plural(agent.numbers.length, "message")}, ${plural(calls, "tool")}`, section: agent.section,
      make: () => h("div", { class: "inside" }, lazily(agent.numbers.slice(1), (some) => messageBlocks(some))) };
  };
}

const called = new WeakMap();
const STARTS = /task|agent|delegate|spawn/i;

/** The sections that stand in calls of a branch, and so nowhere else. */
function calledSections(branch) {
  if (!called.has(branch)) {
    const inside = insideOf(branch);
    const starting = agentsOf(branch).size ? branch.line.filter((turn) => Object.keys(turns[turn].tools || {}).some((tool) => STARTS.test(tool))) : [];
    const calls = starting.flatMap((turn) => addedMessages(turns[turn])).flatMap((number) => messageAt(number).calls || []);
    called.set(branch, new Set(calls.map((call) => inside(call)?.section).filter(Boolean)));
  }
  return called.get(branch);
}

// The story of a branch: chapters, sums and counts, told in one pass over its turns.

/** @typedef {{turn: number, turns: number[], number: number | undefined, tools: number, failed: number, files: Set<string>, added: number, removed: number, compactions: number, checks: Map<string, boolean>}} Chapter */
/** @typedef {{told: number, chapters: Chapter[], sum: any, kinds: Map<string, number[]>, agents: Set<string>}} Story */

/** The longest pause that counts as work. */
const PAUSE_MS = 5 * 60000;

/** Turns that are gone through at once; a story of more of them is waited for. */
const SHORT = 2000;

/**
 * Kinds of turns, and which of them a filter shows.
 * @type {[string, string, (turn: any) => any][]}
 */
const KINDS = [
  ["all", "All", () => true],
  ["prompts", "Prompts", (turn) => turn.prompt !== undefined],
  ["answers", "Answers", (turn) => turn.says || turn.prompt !== undefined],
  ["tools", "Tools", (turn) => turn.tools],
  ["failed", "Failed", (turn) => turn.failed > 0 || kindOf(turn) === "error"],
  ["files", "Files", (turn) => turn.change?.files.length],
];

/** Tells the story of a branch, or how it went on; rests behind each turn. */
function* telling(/** @type {Branch} */ branch) {
  /** @type {Story} */
  const story = branch.story ?? { told: 0, chapters: [], sum: emptySum(), kinds: new Map(KINDS.map(([name]) => [name, []])), agents: new Set() };
  const { chapters, sum, kinds, agents } = story;
  for (; story.told < branch.line.length; story.told += 1) {
    const index = branch.line[story.told];
    const turn = turns[index];
    if (turn.prompt !== undefined || chapters.length === 0) chapters.push(emptyChapter(index, turn));
    const calls = callsOf(turn);
    addToChapter(chapters[chapters.length - 1], index, turn, calls);
    addToSum(sum, turn, calls);
    if (story.told) sum.active += Math.min(Math.max(0, turn.at - turns[branch.line[story.told - 1]].at), PAUSE_MS);
    for (const [name, , fits] of KINDS) if (fits(turn)) kinds.get(name).push(index);
    for (const section in turn.change?.lists) if (section !== MAIN && isConversation(section)) agents.add(section);
    yield;
  }
  branch.story = story;
}

const emptyChapter = (index, turn) => ({ turn: index, turns: [], number: turn.prompt, tools: 0, failed: 0, files: new Set(), added: 0, removed: 0, compactions: 0, checks: new Map() });

function addToChapter(chapter, index, turn, calls) {
  chapter.turns.push(index);
  chapter.tools += calls;
  chapter.failed += turn.failed || 0;
  chapter.compactions += turn.trigger === "compaction" ? 1 : 0;
  for (const [path, added, removed] of turn.change?.files || []) {
    chapter.files.add(path);
    chapter.added += added;
    chapter.removed += removed;
  }
  for (const [name, passed] of checksOf(turn)) chapter.checks.set(name, passed);
}

const emptySum = () => ({ prompts: 0, steps: 0, tools: new Map(), calls: 0, failed: 0, read: 0, cached: 0, wrote: 0, cost: 0, compactions: 0, files: new Map(), facts: new Map(), checks: new Map(), models: new Set(), agents: new Set(), active: 0, context: 0, model: "", expired: 0 });

function addToSum(sum, turn, calls) {
  if (turn.prompt === undefined) sum.steps += 1;
  else sum.prompts += 1;
  for (const tool in turn.tools) sum.tools.set(tool, (sum.tools.get(tool) || 0) + turn.tools[tool]);
  sum.calls += calls;
  sum.failed += turn.failed || 0;
  if (turn.tokens) {
    sum.read += turn.tokens[0];
    sum.cached += turn.tokens[1];
    sum.wrote += turn.tokens[2];
  }
  sum.cost += turn.cost || 0;
  sum.more ||= turn.more;
  sum.compactions += turn.trigger === "compaction" ? 1 : 0;
  sum.expired += turn.change ? 0 : 1;
  for (const [path, added, removed] of turn.change?.files || []) {
    const [a, r] = sum.files.get(path) || [0, 0];
    sum.files.set(path, [a + added, r + removed]);
  }
  for (const [section, key, number] of turn.change?.entries || []) if (section === "meta") sum.facts.set(key, number);
  for (const [name, passed] of checksOf(turn)) sum.checks.set(name, passed);
  if (turn.model) sum.models.add(sum.model = turn.model);
  if (turn.agent) sum.agents.add(turn.agent);
  if (turn.context) sum.context = turn.context;
}

/** The sum of some turns. */
function sumOf(/** @type {number[]} */ some) {
  const sum = emptySum();
  for (const index of some) addToSum(sum, turns[index], callsOf(turns[index]));
  return sum;
}

/** Tells the story of a branch in slices. */
const tell = (/** @type {Branch} */ branch) => inSlices(telling(branch));

/** The story of a branch; throws `Absent` where that is long and not told yet. */
function storyOf(/** @type {Branch} */ branch) {
  if (!branch.story && branch.line.length > SHORT) throw new Absent(branch.told ??= tell(branch));
  for (const _ of telling(branch));
  return branch.story;
}

/** Prompts, each with the turns that came of it. */
const chaptersOf = (/** @type {Branch} */ branch) => storyOf(branch).chapters;

// The overview: what a session is about, what it took, and how it ended, on one screen.

/** A number with its name; none is shown of a story that has not come whole. */
const tile = (value, label, ...more) => h("div", { class: "tile" }, h("b", {}, noteOlder() ? "\u2013" : value), h("span", {}, label), !noteOlder() && more.filter(Boolean).map((one) => h("small", {}, one)));

/** The last thing that an agent said on a branch. */
function resultOf(branch) {
  for (let at = branch.line.length - 1; at >= 0; at -= 1) {
    const turn = turns[branch.line[at]];
    if (!turn.says) continue;
    const said = addedMessages(turn, (section) => section === MAIN).filter((number) => messageAt(number).role === "assistant" && wordsOf(messageAt(number)).trim());
    if (said.length) return { turn: branch.line[at], words: wordsOf(messageAt(said.at(-1))) };
  }
  return null;
}

function spanOf(branch, sum) {
  const [first, last] = [turns[branch.line[0]], turns[branch.line.at(-1)]];
  const elapsed = last.at - first.at;
  const sameDay = dayOf(first.at) === dayOf(last.at);
  const until = sameDay ? clockTime(last.at) : `${dayOf(last.at)} ${clockTime(last.at)}`;
  return [h("time", { datetime: first.time, title: `${first.time} to ${last.time}` }, `${dayOf(first.at)} ${clockTime(first.at)}\u2013${until}`),
    elapsed >= 1000 && h("span", {}, `${duration(elapsed)}${sum.active >= 1000 && sum.active < elapsed * 0.9 ? `, ${duration(sum.active)} active` : ""}`)];
}

function overviewView(branch) {
  const { sum: whole } = storyOf(branch);
  // What a strategy took is counted from its fork on.
  const isFork = branch.fork !== undefined && branch.own.length > 0;
  const sum = isFork ? sumOf(branch.own) : whole;
  const last = branch.line.at(-1);
  const chapters = chaptersOf(branch);
  const prompts = chapters.filter((chapter) => chapter.number !== undefined);
  const asked = titleOf(turns[prompts.length ? prompts[0].turn : last], 600);
  const read = sum.read + sum.wrote > 0;
  const full = fullness(sum.model, sum.context);
  const lines = [...sum.files.values()].reduce(([a, r], [added, removed]) => [a + added, r + removed], [0, 0]);
  const tiles = [
    prompts.length > 0 && tile(sum.prompts.toLocaleString("en"), sum.prompts === 1 ? "prompt" : "prompts"),
    tile(sum.steps.toLocaleString("en"), prompts.length ? (sum.steps === 1 ? "step" : "steps") : sum.steps === 1 ? "turn" : "turns"),
    sum.calls > 0 && tile(sum.calls.toLocaleString("en"), "tool calls", sum.failed ? h("button", { type: "button", title: "Show them", on: { click: () => chooseKind("failed") } }, `${sum.failed} failed`) : "none failed"),
    sum.files.size > 0 && tile(sum.files.size.toLocaleString("en"), sum.files.size === 1 ? "file" : "files", lineCounts(lines[0], lines[1])),
    read && tile(short(sum.read), "tokens in", sum.cached > 0 && `${Math.round((100 * sum.cached) / sum.read)} % from a cache`),
    read && tile(short(sum.wrote), "tokens out", paid(sum)),
    full !== null && tile(`${full} %`, "context filled", h("span", { class: "meter", role: "img", "aria-label": `${full} percent` }, h("span", { "width%": full }))),
    sum.compactions > 0 && tile(String(sum.compactions), sum.compactions === 1 ? "compaction" : "compactions"),
    sum.expired > 0 && tile(String(sum.expired), "expired turns"),
  ];
  const result = resultOf(branch);
  const checks = [...whole.checks].map(([name, passed]) => h("span", { class: `check ${passed ? "passed" : "failed"}` }, `${passed ? "\u2713" : "\u2717"} ${name} ${passed ? "passed" : "failed"}`));
  return h("article", { class: "page overview", "aria-label": "Overview" },
    h("header", { class: "view-head" }, h("h2", {}, header.title), !header.title.startsWith(asked.replace(/\u2026$/, "")) && h("p", { class: "asked" }, asked),
      h("p", { class: "facts" }, spanOf(branch, whole), [...whole.agents].slice(0, 3).map((name) => h("span", {}, name)), [...whole.models].filter((name) => !whole.agents.has(name)).slice(0, 3).map((name) => h("span", {}, name)), h("span", {}, branches.length > 1 && `${branch.name} @ `, h("code", { title: turns[last].id }, turns[last].id.slice(0, 8)))),
      header.labels && h("p", {}, header.labels.map((label) => h("span", { class: "label" }, label))),
      (checks.length > 0 || conflictsOf(branch)) && h("p", { class: "checks" }, checks, conflictsOf(branch)), doors(turns[last]), noteOlder()),
    isFork && h("h3", { class: "part-title" }, `Since the fork at turn ${turns[branch.fork].turn}`, h("small", {}, `the whole line: ${plural(whole.prompts, "prompt")}, ${plural(whole.calls, "tool call")}`, paid(whole) && `, ${paid(whole)}`)),
    h("div", { class: "tiles" }, tiles), h("p", {}, h("a", { href: `#charts${suffix(branch)}` }, "Charts")),
    result && part("Result", null, h("div", { class: "result-box" }, h("div", { class: "prose" }, readable(result.words, prose, 40))), h("p", {}, h("a", { href: hashOf(branch, result.turn) }, "Read how it came to this"))),
    prompts.length > 0 && part("Prompts", String(prompts.length), lazily(prompts, (some) => some.map((chapter) => promptLine(branch, chapter)), 40)),
    whole.files.size > 0 && part("Files", String(whole.files.size), filesOf(branch, whole)),
    whole.tools.size > 0 && part("Tools", String(whole.calls), toolsOf(whole.tools)),
    factsPart(whole));
}

const promptLine = (branch, chapter) => h("a", { class: "line-link prompt-line", href: hashOf(branch, chapter.turn) },
  h("b", {}, `#${chapter.number}`), h("span", {}, titleOf(turns[chapter.turn], 200)), h("small", {}, joined([clockTime(turns[chapter.turn].at), ...chapterFacts(chapter)])));

function filesOf(branch, sum) {
  const files = [...sum.files].sort(([, [a, b]], [, [c, d]]) => c + d - a - b);
  const [first, last] = [branch.line[0], branch.line.at(-1)];
  const link = diffHash({ branch, turn: first }, { branch, turn: last });
  const early = new Map((turns[first].change?.files || []).map(([path, added, removed]) => [path, `${added}/${removed}`]));
  const line = ([path, [added, removed]]) => {
    // What only the first turn wrote is no difference from it.
    const to = early.get(path) === `${added}/${removed}` ? hashOf(branch, first) : `${link}:${encodeURIComponent(path)}`;
    const lines = filesHash(branch, last, path);
    return h("p", { class: "file-line" }, h("a", { class: "path", href: to }, path), lines && h("a", { class: "quiet", href: lines }, "blame"), h("span", {}, lineCounts(added, removed)));
  };
  return [h("p", {}, h("a", { href: link }, "Difference from the first turn to the last")), lazily(files, (some) => some.map(line), 15)];
}

function toolsOf(tools) {
  const ordered = [...tools].sort(([, a], [, b]) => b - a);
  const most = ordered[0][1];
  return lazily(ordered, (some) => some.map(([name, calls]) => h("p", { class: "tool-line" }, h("span", {}, name || "tool"), h("span", { class: "bar" }, h("span", { "width%": (100 * calls) / most })), h("span", {}, calls.toLocaleString("en")))), 12);
}

/** What the session says of itself: the entries of `meta` that are short texts. */
function factsPart(sum) {
  const facts = [...sum.facts].filter(([, number]) => number !== null && typeof textAt(number) === "string" && textAt(number).length < 300);
  return facts.length > 0 && part("Facts", null, h("dl", {}, facts.map(([key, number]) => [h("dt", {}, key), h("dd", {}, textAt(number))])));
}

// The overview: what a session is about, what it took, and how it ended, on one screen.

const tile = (value, label, ...more) => h("div", { class: "tile" }, h("b", {}, value), h("span", {}, label), more.filter(Boolean).map((one) => h("small", {}, one)));

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
  const { sum } = storyOf(branch);
  const last = branch.line.at(-1);
  const chapters = chaptersOf(branch);
  const prompts = chapters.filter((chapter) => chapter.number !== undefined);
  const title = prompts.length ? titleOf(turns[prompts[0].turn], 240) : titleOf(turns[last], 240);
  const read = sum.read + sum.wrote > 0;
  const full = fullness(sum.model, sum.context);
  const lines = [...sum.files.values()].reduce(([a, r], [added, removed]) => [a + added, r + removed], [0, 0]);
  const tiles = [
    prompts.length > 0 && tile(prompts.length.toLocaleString("en"), prompts.length === 1 ? "prompt" : "prompts"),
    tile(sum.steps.toLocaleString("en"), prompts.length ? (sum.steps === 1 ? "step" : "steps") : sum.steps === 1 ? "turn" : "turns"),
    sum.calls > 0 && tile(sum.calls.toLocaleString("en"), "tool calls", h("span", { class: sum.failed ? "failed" : "" }, `${sum.failed || "none"} failed`)),
    sum.files.size > 0 && tile(sum.files.size.toLocaleString("en"), sum.files.size === 1 ? "file" : "files", lineCounts(lines[0], lines[1])),
    read && tile(short(sum.read), "tokens in", sum.cached > 0 && `${Math.round((100 * sum.cached) / sum.read)} % from a cache`),
    read && tile(short(sum.wrote), "tokens out", paid(sum)),
    full !== null && tile(`${full} %`, "context filled", h("span", { class: "meter", role: "img", "aria-label": `${full} percent` }, h("span", { "width%": full }))),
    sum.compactions > 0 && tile(String(sum.compactions), sum.compactions === 1 ? "compaction" : "compactions"),
    sum.expired > 0 && tile(String(sum.expired), "expired turns"),
  ];
  const result = resultOf(branch);
  const checks = [...sum.checks].map(([name, passed]) => h("span", { class: `check ${passed ? "passed" : "failed"}` }, `${passed ? "\u2713" : "\u2717"} ${name} ${passed ? "passed" : "failed"}`));
  return h("article", { class: "page overview", "aria-label": "Overview" },
    h("header", { class: "view-head" }, h("h2", {}, title),
      h("p", { class: "facts" }, spanOf(branch, sum), [...sum.agents].slice(0, 3).map((name) => h("span", {}, name)), [...sum.models].filter((name) => !sum.agents.has(name)).slice(0, 3).map((name) => h("span", {}, name)), h("span", {}, branches.length > 1 && `${branch.name} @ `, h("code", { title: turns[last].id }, turns[last].id.slice(0, 8)))),
      header.labels && h("p", {}, header.labels.map((label) => h("span", { class: "label" }, label))),
      checks.length > 0 && h("p", { class: "checks" }, checks), doors(turns[last]), noteOlder()),
    h("div", { class: "tiles" }, tiles),
    result && part("Result", null, h("div", { class: "result-box" }, h("div", { class: "prose" }, readable(result.words, prose, 40))), h("p", {}, h("a", { href: hashOf(branch, result.turn) }, "Read how it came to this"))),
    prompts.length > 0 && part("Prompts", String(prompts.length), lazily(prompts, (some) => some.map((chapter) => promptLine(branch, chapter)), 40)),
    sum.files.size > 0 && part("Files", String(sum.files.size), filesOf(branch, sum)),
    sum.tools.size > 0 && part("Tools", String(sum.calls), toolsOf(sum.tools)),
    factsPart(sum));
}

const promptLine = (branch, chapter) => h("a", { class: "line-link prompt-line", href: hashOf(branch, chapter.turn) },
  h("b", {}, `#${chapter.number}`), h("span", {}, titleOf(turns[chapter.turn], 200)), h("small", {}, joined([clockTime(turns[chapter.turn].at), ...chapterFacts(chapter)])));

function filesOf(branch, sum) {
  const files = [...sum.files].sort(([, [a, b]], [, [c, d]]) => c + d - a - b);
  const link = diffHash({ branch, turn: branch.line[0] }, { branch, turn: branch.line.at(-1) });
  return [h("p", {}, h("a", { href: link }, "Difference from the first turn to the last")), lazily(files, (some) => some.map(([path, [added, removed]]) => h("p", { class: "file-line" }, h("span", { class: "path" }, path), h("span", {}, lineCounts(added, removed)))), 15)];
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

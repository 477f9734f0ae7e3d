// A turn in the reader: when and how it was, what was said and done, what changed, and doors out.

const isSpecial = (turn) => turn.trigger !== "turn" && turn.trigger !== "manual" && turn.trigger !== "before-tool";

/** The time since the turn before, as people say it. */
function since(branch, index) {
  const before = branch.line[branch.places.get(index) - 1];
  const pause = before === undefined ? 0 : turns[index].at - turns[before].at;
  return pause >= 1000 ? `+${duration(pause)}` : null;
}

const when = (turn) => h("time", { datetime: turn.time, title: `${dayOf(turn.at)} ${clockTime(turn.at)}, ${turn.time}` }, clockTime(turn.at));

function tokensOf(turn) {
  const [read, cached, wrote] = turn.tokens || [0, 0, 0];
  if (read + wrote === 0) return null;
  const title = `${plural(read, "token")} in, of these ${cached.toLocaleString("en")} from a cache; ${wrote.toLocaleString("en")} out`;
  return h("span", { title }, read > 0 && `${short(read)} in \u00b7 `, `${short(wrote)} out`);
}

/** What leads away from a turn: into the terminal where the store is, and to others. */
function doors(turn) {
  return h("p", { class: "doors" }, h("small", {}, "Copy: "), copyButton("id", turn.id, "Copy the id"), commandsAt(turn).map(([name, words, title = `Copy: ${words}`]) => copyButton(name, words, title)), offersAt(turn));
}

/** Facts about a turn, folded: its number and id, doors, metadata, the whole context. */
function detailsPart(branch, index) {
  const turn = turns[index];
  const facts = () => {
    const meta = Object.entries(turn.meta || {}).filter(([name]) => !name.startsWith(CHECK));
    const about = (turn.change?.entries || []).filter(([section, , number]) => section === "meta" && number !== null && typeof textAt(number) === "string" && textAt(number).length < 400).map(([, key, number]) => [key, textAt(number)]);
    const rows = [["time", `${dayOf(turn.at)} ${clockTime(turn.at)} (${turn.time})`], ["model", turn.model], ["agent", turn.agent], ["trigger", turn.trigger], ["session", turn.session], ["cost", paid(turn)], ...meta, ...about];
    const before = turn.change?.base;
    return [doors(turn),
      h("dl", {}, rows.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      before !== undefined && before !== null && h("p", {}, h("a", { href: diffHash({ branch, turn: before }, { branch, turn: index }) }, "Difference from the previous turn")),
      turn.change && contextPart(index)];
  };
  return fold({ class: "details" }, [`Turn ${turn.turn}`, h("code", {}, turn.id.slice(0, 8))], facts);
}

/** Messages of a turn: the conversation, then those of agents that no call shows. */
function talkPart(branch, change, written) {
  return Object.entries(change.lists).filter(([section]) => isConversation(section)).map(([section, splices]) => {
    const agent = agentOf(section);
    if (section !== MAIN && calledSections(branch).has(section)) return [];
    const added = splices.flatMap(([, , numbers]) => numbers);
    const dropped = splices.reduce((sum, [, removed]) => sum + removed, 0);
    const gone = () => {
      const before = stateAt(change.base)?.lists.get(section) || [];
      return lazily(splices.flatMap(([at, removed]) => before.slice(at, at + removed)), (some) => messageBlocks(some, { extra: "gone" }));
    };
    const blocks = (some) => messageBlocks(some, { inside: insideOf(branch), written });
    const few = added.length <= 40 ? blocks(added) : lazily(added, blocks, 40);
    const talk = section === MAIN ? few : added.length > 0 && fold({ class: "thinking agent" }, ["Agent ", h("b", {}, agent), h("small", {}, plural(added.length, "message"))], () => few);
    return [dropped > 0 && fold({ class: "thinking dropped" }, [`${plural(dropped, "message")} left the context`], gone), talk];
  });
}

/** What is told of a turn on its first line. */
function headOf(branch, index) {
  const turn = turns[index];
  const full = turn.tokens?.[0] ? fullness(turn.model, turn.context) : null;
  const checks = checksOf(turn).map(([name, passed]) => h("span", { class: passed ? "passed" : "failed" }, `${name} ${passed ? "passed" : "failed"}`));
  const address = hashOf(branch, index);
  const facts = [isSpecial(turn) && turn.prompt === undefined && h("span", { class: "badge" }, turn.trigger), ...checks, since(branch, index), tokensOf(turn), paid(turn), full !== null && h("span", { title: `${turn.context.toLocaleString("en")} tokens are in front of ${turn.model}` }, `context ${full} %`)];
  return h("header", { class: "turn-head" },
    turn.prompt !== undefined ? h("h2", {}, h("a", { href: address }, `#${turn.prompt}`)) : h("a", { class: "step", href: address, "aria-label": `Turn ${turn.turn}` }, "\u2022"),
    when(turn), facts.filter(Boolean).map((fact) => h("small", {}, fact)));
}

/** A turn: what was said and done, and what changed. */
function turnBlock(branch, index) {
  const turn = turns[index];
  const isPrompt = turn.prompt !== undefined;
  const name = isPrompt ? `Prompt ${turn.prompt}` : `Turn ${turn.turn}`;
  const article = (...content) => h("article", { class: `turn ${isPrompt ? "prompt" : "step"}`, "data-turn": index, "aria-label": name }, headOf(branch, index), detailsPart(branch, index), content);
  if (!turn.change) return article(h("p", { class: "quiet" }, "What this turn held has expired: retention kept only that it was there."));
  const written = writtenByCalls(turn);
  const parts = [talkPart(branch, turn.change, writtenBy(branch, index, written)), filesPart(branch, index, written), notesPart(branch, index)];
  const silent = addedMessages(turn).length;
  const title = (isSpecial(turn) || !silent) && turn.message ? h("p", { class: "what" }, turn.message) : null;
  const isEmpty = parts.flat(Infinity).filter(Boolean).length === 0;
  return article(title, parts, isEmpty && h("p", { class: "quiet" }, silent ? `${plural(silent, "message")} without anything to read, such as hidden reasoning.` : title ? "" : "Nothing changed."));
}

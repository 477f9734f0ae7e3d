// Search in a page that holds its data: line by line, a slice of time after the other.

/** By kind: the turn in which each message and each text came first, or -1; made by the first search. */
let born = null;

async function findBorn() {
  const first = { m: new Int32Array(count("m")).fill(-1), x: new Int32Array(count("x")).fill(-1) };
  const slice = new Slice();
  for (let index = 0; index < turns.length; index += 1) {
    for (const [kind, number] of broughtBy(turns[index])) if (first[kind][number] < 0) first[kind][number] = index;
    if (slice.over()) await slice.rest();
  }
  born = first;
}

/** The messages and texts that a turn brought: kind, number, and where it stands. */
function* broughtBy(turn) {
  const { lists = {}, files = [], entries = [] } = turn.change || {};
  for (const section in lists) {
    const kind = isConversation(section) ? "m" : "x";
    for (const [, , added] of lists[section]) for (const number of added) yield [kind, number, section];
  }
  for (const [path, , , number] of files) if (number !== undefined) yield ["x", number, `${FILES}/${path}`];
  for (const [section, key, number] of entries) if (number !== null) yield ["x", number, key ? `${section}/${key}` : section];
}

const whereIs = (kind, number, turn) => [...broughtBy(turns[turn])].find(([one, other]) => one === kind && other === number)[2];

/** The parts of a line that are searched, by kind. */
function partsOf(kind, number) {
  if (kind === "x") return [["files", typeof textAt(number) === "string" ? textAt(number) : ""]];
  const message = messageAt(number);
  const own = message.role === "assistant" ? "answers" : message.prompt ? "prompts" : "other";
  return [[own, message.text || ""], ["thinking", message.thinking || ""], ...(message.calls || []).map(([, name, input]) => ["calls", `${name} ${unescaped(input)}`]), ...(message.results || []).map(([, words]) => ["results", words])];
}

/** Whether a line may hold the words: what JSON writes otherwise is not looked for in its raw form. */
function sieve(words) {
  if (/["\\<>&\u0000-\u001f\u2028\u2029]/.test(words)) return () => true;
  const pattern = new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
  return (line) => pattern.test(line);
}

async function searchAll(words, goesOn, found, told) {
  const wanted = words.toLowerCase();
  const mayHold = sieve(words);
  await breathe();
  if (!born) await findBorn();
  const slice = new Slice();
  const titled = new Set();
  const look = (kind, number) => {
    if (!mayHold(lineOf(kind, number))) return;
    const turn = born[kind][number];
    if (turn < 0) return;
    for (const [part, words_] of partsOf(kind, number)) {
      const place = words_.toLowerCase().indexOf(wanted);
      if (place < 0) continue;
      titled.add(turn);
      found({ kind: part, line: kind, number, turn, where: whereIs(kind, number, turn), text: words_, place });
      if (search.hits.length >= MOST_HITS) return;
    }
  };
  for (const kind of ["m", "x"]) {
    for (let number = 0; number < count(kind) && search.hits.length < MOST_HITS; number += 1) {
      try {
        look(kind, number);
      } catch (reason) {
        if (!(reason instanceof Absent)) throw reason;
        await reason.come;
        number -= 1;
        continue;
      }
      if (!slice.over()) continue;
      told(false);
      await slice.rest();
      if (!goesOn()) return;
    }
  }
  for (let index = 0; index < turns.length; index += 1) {
    const { message } = turns[index];
    const place = message.toLowerCase().indexOf(wanted);
    if (place >= 0 && !titled.has(index) && search.hits.length < MOST_HITS) found({ kind: "other", line: "t", number: index, turn: index, where: "title", text: message, place });
    if (!slice.over()) continue;
    await slice.rest();
    if (!goesOn()) return;
  }
  told(true);
}

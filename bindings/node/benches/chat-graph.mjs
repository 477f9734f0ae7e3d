// A chat graph of many turns on several checkpoint savers: prints a table of size and times.
//
//     node chat-graph.mjs [TURNS] [SAVER...]
//
// Run it where the package and LangGraph are installed, as in target/node/project after `check`. Each turn is
// one question and one answer of about 2 KB, three checkpoints and their writes. Times are medians: of the last
// 20 turns, with LangGraph's own share, and of what the calls of the saver took in them; and of 20 calls
// afterwards.

import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { TurntreeSaver } from "turntree/langgraph";

const LAST = 20;

const SAVERS = {
  turntree: (folder) => TurntreeSaver.open(folder),
  memory: async () => new MemorySaver(),
};

const median = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];

async function medianMs(calls, call) {
  const times = [];
  for (let at = 0; at < calls; at += 1) {
    const start = performance.now();
    await call(at);
    times.push(performance.now() - start);
  }
  return median(times);
}

// What the file system gave, not how long files are: journals are filled with zeros ahead.
function bytesOf(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  return files.reduce((sum, file) => sum + statSync(join(file.path, file.name)).blocks * 512, 0);
}

let seed = 1;
function random(below) {
  seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
  return (seed >>> 8) % below;
}

function words(count) {
  const word = () => Array.from({ length: 2 + random(8) }, () => "etaoinshrdlu"[random(12)]).join("");
  return Array.from({ length: count }, word).join(" ");
}

/** Adds up the time in the calls of a saver. */
function watch(saver) {
  const watched = { ms: 0 };
  for (const name of ["getTuple", "put", "putWrites"]) {
    const call = saver[name].bind(saver);
    saver[name] = async (...options) => {
      const start = performance.now();
      try {
        return await call(...options);
      } finally {
        watched.ms += performance.now() - start;
      }
    };
  }
  return watched;
}

async function measure(name, turns) {
  const texts = Array.from({ length: 2 * turns }, () => words(310));
  const folder = mkdtempSync(join(tmpdir(), "turntree-"));
  const saver = await SAVERS[name](folder);
  const answer = (state) => ({ messages: [new AIMessage(texts[state.messages.length])] });
  const builder = new StateGraph(MessagesAnnotation).addNode("answer", answer).addEdge(START, "answer");
  const graph = builder.compile({ checkpointer: saver });
  const config = { configurable: { thread_id: "chat" } };
  const watched = watch(saver);
  const turn = (at) => graph.invoke({ messages: [new HumanMessage(texts[2 * at])] }, config);
  for (let at = 0; at < turns - LAST; at += 1) await turn(at);
  const inside = [];
  const last = await medianMs(LAST, async (at) => {
    const before = watched.ms;
    await turn(turns - LAST + at);
    inside.push(watched.ms - before);
  });
  const newest = await medianMs(LAST, () => saver.getTuple(config));
  const copies = saver.copyThread ? await medianMs(LAST, (at) => saver.copyThread("chat", `copy ${at}`)) : NaN;
  await saver.store?.collect?.();
  await saver.close?.();
  let cold = NaN;
  if (saver.close) {
    const again = await SAVERS[name](folder);
    cold = await medianMs(1, () => again.getTuple(config));
    await again.close();
  }
  const row = [(bytesOf(folder) / 1e6).toFixed(1), ...[last, median(inside), newest, cold, copies].map((ms) => ms.toFixed(2))];
  rmSync(folder, { recursive: true, force: true });
  return row;
}

const [turns = "1000", ...names] = process.argv.slice(2);
console.log(`a chat of ${turns} turns | MB | last turns ms | in the saver ms | newest ms | newest in a new process ms | copy ms`);
for (const name of names.length > 0 ? names : Object.keys(SAVERS)) {
  console.log([name, ...(await measure(name, Number(turns)))].join(" | "));
}

// A chat graph of many turns on several checkpoint savers: prints a table of size and times.
//
//     node benches/chat-graph.mjs [TURNS] [SAVER...]
//
// In target/node/project after `check`, where the package and LangGraph are installed. Each turn is one question
// and one answer of about 2 KB, three checkpoints and their writes. Times are medians: of the last 20 turns, with
// LangGraph's own share, and of what the calls of the saver took in them; and of 20 calls afterwards.

import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { TurntreeSaver } from "turntree/langgraph";

const LAST = 20;

export const SAVERS = {
  turntree: (folder) => TurntreeSaver.open(folder),
  MemorySaver: async () => new MemorySaver(),
};

const HEAD = [
  "saver",
  "MB",
  "MB, repacked",
  "ms a turn",
  "of it in the saver",
  "ms newest state",
  "in a new handle",
  "ms copyThread",
  "s in all",
];

export const median = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];

export async function medianMs(calls, call) {
  const times = [];
  for (let at = 0; at < calls; at += 1) {
    const start = performance.now();
    await call(at);
    times.push(performance.now() - start);
  }
  return median(times);
}

// What the file system gave, not how long files are: journals are filled with zeros ahead.
export function bytesOf(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const blocks = files.reduce((sum, file) => sum + statSync(join(file.parentPath ?? file.path, file.name)).blocks, 0);
  return blocks * 512;
}

export const megabytesOf = (folder) => (bytesOf(folder) / 1e6).toFixed(1);

/** Works in a folder that goes afterwards. */
export async function inFolder(work) {
  const folder = mkdtempSync(join(tmpdir(), "turntree-"));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export function printHead(...names) {
  console.log(`| ${names.join(" | ")} |\n|${"---|".repeat(names.length)}`);
}

/** Texts that are the same in every run. */
export function wordsOf(seed) {
  let state = seed;
  const random = (below) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 8) % below;
  };
  const word = () => Array.from({ length: 2 + random(8) }, () => "etaoinshrdlu"[random(12)]).join("");
  return (count) => Array.from({ length: count }, word).join(" ");
}

/** Adds up the time in which calls of a saver were under way; several at once count once. */
function watch(saver) {
  const watched = { ms: 0 };
  let [under, start] = [0, 0];
  for (const name of ["getTuple", "put", "putWrites"]) {
    const call = saver[name].bind(saver);
    saver[name] = async (...options) => {
      if (under === 0) start = performance.now();
      under += 1;
      try {
        return await call(...options);
      } finally {
        under -= 1;
        if (under === 0) watched.ms += performance.now() - start;
      }
    };
  }
  return watched;
}

async function measure(name, turns, folder) {
  const words = wordsOf(1);
  const texts = Array.from({ length: 2 * turns }, () => words(310));
  const open = () => SAVERS[name](folder);
  const saver = await open();
  const isKept = saver.store !== undefined;
  const answer = (state) => ({ messages: [new AIMessage(texts[state.messages.length])] });
  const builder = new StateGraph(MessagesAnnotation).addNode("answer", answer).addEdge(START, "answer");
  const graph = builder.compile({ checkpointer: saver });
  const config = { configurable: { thread_id: "chat" } };
  const watched = watch(saver);
  const turn = (at) => graph.invoke({ messages: [new HumanMessage(texts[2 * at])] }, config);
  const start = performance.now();
  for (let at = 0; at < turns - LAST; at += 1) await turn(at);
  const inside = [];
  const last = await medianMs(LAST, async (at) => {
    const before = watched.ms;
    await turn(turns - LAST + at);
    inside.push(watched.ms - before);
  });
  const total = (performance.now() - start) / 1000;
  const newest = await medianMs(LAST, () => saver.getTuple(config));
  const times = [last, median(inside), newest].map((ms) => ms.toFixed(2));
  if (!isKept) return [name, "0", "", ...times, "", "not there", total.toFixed(0)];
  const copied = await medianMs(LAST, (at) => saver.copyThread("chat", `copy ${at}`));
  await saver.close();
  const size = megabytesOf(folder);
  const again = await open();
  const cold = await medianMs(1, () => again.getTuple(config));
  await again.store.collect({ repack: true });
  await again.close();
  return [name, size, megabytesOf(folder), ...times, cold.toFixed(0), copied.toFixed(2), total.toFixed(0)];
}

export async function table(turns, names = Object.keys(SAVERS)) {
  printHead(...HEAD);
  for (const name of names) {
    const row = await inFolder((folder) => measure(name, turns, folder));
    console.log(`| ${row.join(" | ")} |`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [turns = "1000", ...names] = process.argv.slice(2);
  await table(Number(turns), names.length > 0 ? names : undefined);
}

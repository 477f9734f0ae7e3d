// What turntree costs inside of frameworks, beside what they bring: prints every table of the page for Node.
//
//     node benches/frameworks.mjs [TURNS]
//
// In target/node/project after `check --profile wheel`. Times are medians in ms unless a column says otherwise; how
// busy the machine was stands above the tables.

import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, readdirSync, writeSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import { InMemorySessionStore } from "@anthropic-ai/claude-agent-sdk";
import { Store } from "turntree";
import { TurntreeSessionStore } from "turntree/claude";
import { inFolder, median, medianMs, megabytesOf, printHead, table, wordsOf } from "./chat-graph.mjs";

const CALLS = 20_000;

/** What the S3 example of the SDK does, on this disk: an object for each append, all of them for a load. */
class PartsStore {
  #parts = 0;

  constructor(folder) {
    this.folder = folder;
  }

  async append({ projectKey, sessionId }, entries) {
    const place = join(this.folder, projectKey, sessionId);
    mkdirSync(place, { recursive: true });
    this.#parts += 1;
    const part = openSync(join(place, `part-${String(this.#parts).padStart(13, "0")}-000000.jsonl`), "w");
    writeSync(part, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
    fsyncSync(part);
    closeSync(part);
  }

  async load({ projectKey, sessionId }) {
    const place = join(this.folder, projectKey, sessionId);
    const texts = readdirSync(place).sort().map((name) => readFileSync(join(place, name), "utf8"));
    return texts.flatMap((text) => text.split("\n").filter(Boolean).map((line) => JSON.parse(line)));
  }
}

const uuidOf = (number) => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;

/** A transcript of turns with a question, a call of a tool, its result and an answer. */
async function transcripts(turns) {
  console.log();
  printHead("transcripts", "MB", "append of 4 entries", "load of all", "load in a new handle");
  const words = wordsOf(1);
  const texts = Array.from({ length: 4 * turns }, () => words(80));
  const key = { projectKey: "p", sessionId: uuidOf(1) };
  const entries = (turn) =>
    ["user", "assistant", "user", "assistant"].map((role, at) => {
      const message = { role, content: texts[4 * turn + at] };
      return { type: role, uuid: uuidOf(4 * turn + at), message };
    });
  const load = (store) =>
    medianMs(1, async () => {
      if ((await store.load(key)).length !== 4 * turns) throw new Error("not all came back");
    });
  const makes = {
    "turntree, durable": (folder) => TurntreeSessionStore.open(folder),
    "a file for each append, synced": (folder) => new PartsStore(folder),
    InMemorySessionStore: () => new InMemorySessionStore(),
  };
  for (const [name, make] of Object.entries(makes)) {
    const row = await inFolder(async (folder) => {
      const store = await make(folder);
      const times = [];
      for (let turn = 0; turn < turns; turn += 1) {
        const batch = entries(turn);
        times.push(await medianMs(1, () => store.append(key, batch)));
      }
      const loads = [];
      for (let at = 0; at < 5; at += 1) loads.push(await load(store));
      const medians = [median(times.slice(-100)).toFixed(2), median(loads).toFixed(1)];
      if (store instanceof InMemorySessionStore) return [name, "0", ...medians, ""];
      await store.close?.();
      const size = megabytesOf(folder);
      const again = await make(folder);
      const cold = await load(again);
      await again.close?.();
      return [name, size, ...medians, cold.toFixed(1)];
    });
    console.log(`| ${row.join(" | ")} |`);
  }
}

/** What a call of the binding takes, from none of the engine's work to some of it. */
async function calls() {
  console.log();
  printHead("a call", "µs, one after the other", "µs, 64 at once");
  await inFolder(async (folder) => {
    const store = await Store.open(folder);
    await store.transact("task", "kept", (change) => change.put("kept", "a", Buffer.from("1")));
    const snapshot = await store.snapshot("task");
    const rows = {
      "a promise of Node alone": async () => undefined,
      "`snapshot.turn`, which is no promise": () => snapshot.turn,
      "`snapshot.get` of a section that is not there": () => snapshot.get("other", "a"),
      "`snapshot.get` of one byte": () => snapshot.get("kept", "a"),
      "`store.tip`, which looks whether others wrote": () => store.tip("task"),
    };
    for (const [name, call] of Object.entries(rows)) {
      const row = [];
      for (const width of [1, 64]) {
        let best = Number.POSITIVE_INFINITY;
        for (let round = 0; round < 5; round += 1) best = Math.min(best, await microsOf(call, width));
        row.push(best.toFixed(2));
      }
      console.log(`| ${[name, ...row].join(" | ")} |`);
    }
    await store.close();
  });
}

async function microsOf(call, width) {
  const start = performance.now();
  for (let at = 0; at < CALLS; at += width) {
    if (width === 1) await call();
    else await Promise.all(Array.from({ length: width }, call));
  }
  return ((performance.now() - start) * 1000) / CALLS;
}

const turns = Number(process.argv[2] ?? 1000);
const load = loadavg().map((one) => one.toFixed(1)).join(", ");
console.log(`${availableParallelism()} processors; load of the last 1, 5 and 15 minutes: ${load}\n`);
await table(turns);
await transcripts(turns);
await calls();

// LangGraph: threads that are copied from other savers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import {
  Annotation,
  Command,
  DeltaChannel,
  MemorySaver,
  MessagesAnnotation,
  START,
  Send,
  StateGraph,
  interrupt,
} from "@langchain/langgraph";
import { Store } from "turntree";
import { TurntreeSaver } from "turntree/langgraph";
import { newPlace } from "./place.mjs";

const of = (thread) => ({ configurable: { thread_id: thread } });

const State = Annotation.Root({
  ...MessagesAnnotation.spec,
  n: Annotation({ reducer: (a, b) => a + b, default: () => 0 }),
  // Every write of a step counts, and their order.
  m: () => new DeltaChannel((state, writes) => [...state, ...writes.flat()], { initialValueFactory: () => [] }),
});

function graph(checkpointer) {
  const ask = ({ messages }) => {
    const said = messages.at(-1).text;
    if (said === "stop") return { n: 1, m: [interrupt("go on?")], messages: [new AIMessage("resumed")] };
    return { n: 1, m: ["answer"], messages: [new AIMessage(`you said ${said}`)] };
  };
  const spread = () => Array.from({ length: 12 }, (_, number) => new Send("part", { number }));
  const part = ({ number }) => ({ n: 1, m: [`part ${number}`] });
  const builder = new StateGraph(State).addNode("ask", ask).addNode("part", part).addEdge(START, "ask");
  return builder.addConditionalEdges("ask", spread, ["part"]).compile({ checkpointer });
}

/** Threads with forks, parallel tasks, and one that waits for an answer. */
async function fill(saver) {
  const talk = graph(saver);
  for (const turn of [0, 1, 2, 3]) {
    await talk.invoke({ m: [`question ${turn}`], messages: [new HumanMessage(String(turn))] }, of("a"));
  }
  const older = (await all(talk.getStateHistory(of("a"))))[3];
  await talk.updateState(older.config, { messages: [new HumanMessage("another way")] }, "ask");
  await talk.invoke({ m: ["q"], messages: [new HumanMessage("b")] }, of("b"));
  await talk.invoke({ m: ["s"], messages: [new HumanMessage("stop")] }, of("waits"));
}

async function all(found) {
  const read = [];
  for await (const one of found) read.push(one);
  return read;
}

async function states(saver, thread) {
  const found = await all(graph(saver).getStateHistory(of(thread)));
  return found.map(({ config, parentConfig, values, next, tasks, metadata }) => ({
    id: config.configurable.checkpoint_id,
    parent: parentConfig?.configurable.checkpoint_id,
    values,
    next,
    metadata,
    tasks: tasks.map(({ name, error, interrupts, path }) => ({ name, error, interrupts, path })),
  }));
}

const writes = async (saver, thread) => (await all(saver.list(of(thread)))).map((found) => found.pendingWrites);

test("a copy has every state, fork and write, and continues like the original", async () => {
  const old = new MemorySaver();
  await fill(old);
  const path = newPlace();
  let saver = await TurntreeSaver.open(path);
  const count = (await all(old.list({ configurable: {} }))).length;
  assert.equal(await saver.copyFrom(old), count);
  for (const thread of ["a", "b", "waits"]) {
    assert.deepEqual(await states(saver, thread), await states(old, thread), thread);
    assert.deepEqual(await writes(saver, thread), await writes(old, thread), thread);
  }
  // Again, by another process: nothing is new, and nothing grows.
  const tips = async () => Promise.all((await saver.store.sessions()).map((name) => saver.store.tip(name)));
  const before = await tips();
  await saver.close();
  saver = await TurntreeSaver.open(path);
  assert.equal(await saver.copyFrom(old), 0);
  assert.deepEqual(await tips(), before);
  for (const one of [old, saver]) {
    await graph(one).invoke(new Command({ resume: "yes" }), of("waits"));
    await graph(one).invoke({ messages: [new HumanMessage("more")] }, of("a"));
  }
  for (const thread of ["a", "waits"]) {
    const [theirs, ours] = await Promise.all([old, saver].map((one) => graph(one).getState(of(thread))));
    assert.deepEqual([ours.values.n, ours.values.m], [theirs.values.n, theirs.values.m]);
    assert.deepEqual(ours.values.messages.map((one) => one.text), theirs.values.messages.map((one) => one.text));
  }
  const shown = await (await saver.store.snapshot("a")).messages();
  assert.equal(shown.length, (await graph(saver).getState(of("a"))).values.messages.length);
  await saver.close();
});

test("items are copied once, and only the chosen threads", async () => {
  const old = new MemorySaver();
  for (let turn = 0; turn < 20; turn += 1) {
    await graph(old).invoke({ messages: [new HumanMessage(String(turn))] }, of("a"));
  }
  await graph(old).invoke({ messages: [new HumanMessage("b")] }, of("b"));
  const saver = await TurntreeSaver.open(newPlace());
  await saver.copyFrom(old, ["a"]);
  assert.deepEqual(await saver.store.sessions(), ["a"]);
  const items = await (await saver.store.snapshot("a")).list("langgraph-items");
  assert.equal(items.length, 40 + 20 * 12, "messages, and the calls of parts");
  await saver.close();
});

test("an interrupted copy continues", async () => {
  const old = new MemorySaver();
  await fill(old);
  const path = newPlace();
  const expected = await states(old, "a");
  const whole = old.getTuple.bind(old);
  for (const survives of [1, 5, 11, Number.POSITIVE_INFINITY]) {
    const saver = await TurntreeSaver.open(path);
    let left = survives;
    old.getTuple = async (config) => {
      if (left <= 0) throw new Error("interrupted");
      left -= 1;
      return whole(config);
    };
    const copied = saver.copyFrom(old);
    await (Number.isFinite(survives) ? assert.rejects(copied, /interrupted/) : copied);
    await saver.close();
  }
  old.getTuple = whole;
  const saver = new TurntreeSaver(await Store.open(path));
  assert.deepEqual(await states(saver, "a"), expected);
  await saver.store.close();
});

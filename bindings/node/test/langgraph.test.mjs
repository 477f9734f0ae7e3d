// LangGraph: what is promised beyond the suite of its owners.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { beforeEach, test } from "node:test";
import {
  AIMessage,
  AIMessageChunk,
  HumanMessage,
  RemoveMessage,
  SystemMessage,
  ToolMessage,
} from "@langchain/core/messages";
import {
  Annotation,
  DeltaChannel,
  InMemoryStore,
  MemorySaver,
  MessagesAnnotation,
  Overwrite,
  START,
  StateGraph,
  messagesDeltaReducer,
} from "@langchain/langgraph";
import { Conflict, InvalidInput, Store } from "turntree";
import { PythonValue, TurntreeSaver, TurntreeStore } from "turntree/langgraph";
import { newPlace } from "./place.mjs";

let path;
beforeEach(() => {
  path = newPlace();
});

const of = (thread, more = {}) => ({ configurable: { thread_id: thread, ...more } });

function chat(checkpointer, answer) {
  const reply = (state) => {
    const said = state.messages.at(-1).text;
    return { messages: [answer ? answer(state) : new AIMessage(`you said ${said}`)] };
  };
  const graph = new StateGraph(MessagesAnnotation).addNode("reply", reply).addEdge(START, "reply");
  return graph.compile({ checkpointer });
}

const texts = (found) => (found.values.messages ?? []).map((message) => message.text);

async function all(found) {
  const read = [];
  for await (const one of found) read.push(one);
  return read;
}

const history = async (graph, config) => (await all(graph.getStateHistory(config))).map(texts);

test("a thread goes on after the process", async () => {
  for (const said of ["one", "two"]) {
    const saver = await TurntreeSaver.open(path);
    await chat(saver).invoke({ messages: [new HumanMessage(said)] }, of("t"));
    await saver.close();
  }
  const saver = await TurntreeSaver.open(path);
  const expected = ["one", "you said one", "two", "you said two"];
  assert.deepEqual(texts(await chat(saver).getState(of("t"))), expected);
  assert.equal((await history(chat(saver), of("t"))).length, 6);
  await saver.close();
});

test("threads at once do not meet", async () => {
  const saver = await TurntreeSaver.open(path);
  const graph = chat(saver);
  const names = ["a", "b", "c", "d", "e"];
  await Promise.all(names.map((name) => graph.invoke({ messages: [new HumanMessage(name)] }, of(name))));
  for (const name of names) {
    assert.deepEqual(texts(await graph.getState(of(name))), [name, `you said ${name}`]);
  }
  await saver.close();
});

test("every state of a random walk is that of the memory saver", async () => {
  // Turns, forks from older checkpoints, removals and edits, on both savers at once.
  let seed = 7;
  const random = (below) => {
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    return (seed >>> 8) % below;
  };
  const saver = await TurntreeSaver.open(path);
  const graphs = [chat(saver), chat(new MemorySaver())];
  const taken = [[], []];
  for (let number = 0; number < 40; number += 1) {
    const kind = ["turn", "turn", "fork", "remove", "edit"][random(5)];
    const at = taken[0].length > 0 ? random(taken[0].length) : null;
    for (const [which, graph] of graphs.entries()) {
      const config = at !== null && kind === "fork" ? taken[which][at] : of("t");
      const state = await graph.getState(config);
      const messages = state.values.messages ?? [];
      const old = messages[number % Math.max(messages.length, 1)];
      let now;
      if (kind === "remove" && old) {
        now = await graph.updateState(state.config, { messages: [new RemoveMessage({ id: old.id })] });
      } else if (kind === "edit" && old) {
        const edited = new old.constructor({ content: `edited ${number}`, id: old.id });
        now = await graph.updateState(state.config, { messages: [edited] });
      } else {
        const said = new HumanMessage({ content: String(number), id: `h${number}` });
        await graph.invoke({ messages: [said] }, config);
        now = (await graph.getState(of("t"))).config;
      }
      taken[which].push(now);
    }
  }
  const fresh = await TurntreeSaver.open(path);
  for (const [at, ours] of taken[0].entries()) {
    const expected = texts(await graphs[1].getState(taken[1][at]));
    assert.deepEqual(texts(await graphs[0].getState(ours)), expected);
    assert.deepEqual(texts(await chat(fresh).getState(ours)), expected);
  }
  const expected = await history(graphs[1], of("t"));
  assert.deepEqual(await history(graphs[0], of("t")), expected);
  await saver.close();
  await fresh.close();
});

test("a thread is a session whose messages are messages", async () => {
  const call = { name: "look", args: { at: [1, 2] }, id: "c1", type: "tool_call" };
  const usage = { input_tokens: 1, output_tokens: 2, total_tokens: 3 };
  const said = [
    new SystemMessage("be kind"),
    new HumanMessage({ content: "hi", name: "me" }),
    new AIMessage({ content: "", tool_calls: [call], usage_metadata: usage }),
    new ToolMessage({ content: "found", tool_call_id: "c1", artifact: { b: [1, 2] } }),
  ];
  const saver = await TurntreeSaver.open(path);
  const graph = chat(saver);
  await graph.invoke({ messages: said }, of("support chat"));
  const first = (await graph.getState(of("support chat"))).config;
  await graph.invoke({ messages: [new HumanMessage("more")] }, of("support chat"));
  const fresh = await TurntreeSaver.open(path);
  const found = (await chat(fresh).getState(of("support chat"))).values.messages;
  assert.deepEqual(found.slice(0, 4).map((one) => one.toDict()), said.map((one) => one.toDict()));
  assert.ok(found[2] instanceof AIMessage && found[1] instanceof HumanMessage);
  await graph.updateState(first, { messages: [new HumanMessage("another way")] });
  assert.deepEqual(await saver.store.sessions(), ["support%20chat"]);
  const messages = await (await saver.store.snapshot("support%20chat")).messages();
  const roles = messages.map((message) => message.role);
  assert.deepEqual(roles, ["system", "user", "assistant", "tool", "assistant", "user"]);
  assert.match(String(messages.at(-1).record), /"another way"/, "the newest state, not all forks");
  assert.deepEqual(new Set(messages.map((message) => message.format)), new Set(["openai-chat"]));
  const titles = (await all(saver.store.log("support%20chat"))).map((one) => one.title);
  assert.ok(titles.some((title) => title.includes("user: more")));
  await saver.close();
  await fresh.close();
});

test("a step costs what is new", async () => {
  const saver = await TurntreeSaver.open(path);
  const graph = chat(saver);
  for (let number = 0; number < 60; number += 1) {
    await graph.invoke({ messages: [new HumanMessage(String(number).repeat(200))] }, of("t"));
  }
  const snapshot = await saver.store.snapshot("t");
  assert.equal(await snapshot.count("langgraph-items"), 120, "each message once");
  const values = await snapshot.scan("langgraph-values");
  const sizes = values.filter(([key]) => key.endsWith("/messages")).map(([, stored]) => stored.length);
  assert.ok(Math.max(...sizes) < 40);
  const gone = (await graph.getState(of("t"))).values.messages[3];
  await graph.updateState(of("t"), { messages: [new RemoveMessage({ id: gone.id })] });
  const now = await saver.store.snapshot("t");
  assert.equal(await now.count("langgraph-items"), 120);
  assert.equal((await now.messages()).length, 119);
  await saver.close();
});

test("what a node changes in place is stored, and what a reader changes is not", async () => {
  const saver = await TurntreeSaver.open(path);
  const graph = chat(saver, (state) => {
    state.messages[0].additional_kwargs["seen"] = state.messages.length;
    state.messages[0].content = `edited ${state.messages.length}`;
    return new AIMessage("ok");
  });
  await graph.invoke({ messages: [new HumanMessage("one")] }, of("t"));
  await graph.invoke({ messages: [new HumanMessage("two")] }, of("t"));
  const fresh = await TurntreeSaver.open(path);
  const [found] = (await chat(fresh).getState(of("t"))).values.messages;
  assert.deepEqual([found.content, found.additional_kwargs], ["edited 3", { seen: 3 }]);
  found.content = "meddled";
  assert.equal(texts(await chat(fresh).getState(of("t")))[0], "edited 3");
  await saver.close();
  await fresh.close();
});

test("lists of anything and other values come back", async () => {
  const listed = () => Annotation({ reducer: (a, b) => a.concat(b), default: () => [] });
  const state = Annotation.Root({ numbers: listed(), records: listed(), things: listed(), note: Annotation() });
  const add = (now) => ({
    numbers: [now.numbers.length],
    records: [{ n: [1, null, "x"] }, "text", new Uint8Array([1])],
    things: [new Set([1]), new AIMessageChunk("part")],
    note: { ü: new Map([["a", 1]]) },
  });
  const saver = await TurntreeSaver.open(path);
  const build = (checkpointer) =>
    new StateGraph(state).addNode("add", add).addEdge(START, "add").compile({ checkpointer });
  for (let turn = 0; turn < 3; turn += 1) await build(saver).invoke({ numbers: [7] }, of("t"));
  const fresh = await TurntreeSaver.open(path);
  const found = (await build(fresh).getState(of("t"))).values;
  assert.deepEqual(found.numbers, [7, 1, 7, 3, 7, 5]);
  assert.deepEqual(found.records.slice(0, 3), [{ n: [1, null, "x"] }, "text", new Uint8Array([1])]);
  assert.equal(found.records.length, 9);
  assert.deepEqual([found.things[0], found.things[1].text], [new Set([1]), "part"]);
  assert.deepEqual(found.note, { ü: new Map([["a", 1]]) });
  await saver.close();
  await fresh.close();
});

test("pruning keeps the newest state and frees the rest", async () => {
  const saver = await TurntreeSaver.open(path);
  const graph = chat(saver);
  for (let number = 0; number < 10; number += 1) {
    await graph.invoke({ messages: [new HumanMessage(String(number))] }, of("t"));
  }
  const expected = texts(await graph.getState(of("t")));
  await saver.prune(["t", "never was"]);
  assert.equal((await history(graph, of("t"))).length, 1);
  assert.deepEqual(texts(await graph.getState(of("t"))), expected);
  const snapshot = await saver.store.snapshot("t");
  assert.deepEqual([snapshot.parents, (await snapshot.messages()).length], [[], 20]);
  await graph.invoke({ messages: [new HumanMessage("on")] }, of("t"));
  assert.deepEqual(texts(await graph.getState(of("t"))).slice(-2), ["on", "you said on"]);
  await assert.rejects(saver.prune(["t"], { strategy: "other" }), InvalidInput);
  await saver.prune(["t"], { strategy: "delete" });
  assert.deepEqual(await saver.store.sessions(), []);
  await saver.close();
});

test("a copy costs nothing and goes its own way", async () => {
  const saver = await TurntreeSaver.open(path);
  const graph = chat(saver);
  await graph.invoke({ messages: [new HumanMessage("one")] }, of("t"));
  await saver.copyThread("t", "copy");
  assert.equal(await saver.store.tip("t"), await saver.store.tip("copy"));
  await graph.invoke({ messages: [new HumanMessage("two")] }, of("copy"));
  assert.equal(texts(await graph.getState(of("t"))).length, 2);
  await saver.deleteThread("t");
  assert.equal(texts(await graph.getState(of("copy"))).length, 4);
  await graph.invoke({ messages: [new HumanMessage("other")] }, of("u"));
  await saver.copyThread("copy", "u");
  assert.equal((await all(saver.list(of("u")))).length, 9);
  const fresh = await TurntreeSaver.open(path);
  const lengths = (await history(chat(fresh), of("u"))).map((one) => one.length);
  assert.equal(Math.max(...lengths), 4);
  await saver.copyThread("never was", "v");
  assert.equal(await saver.getTuple(of("v")), undefined);
  await saver.close();
  await fresh.close();
});

test("checkpoints of a run go with it", async () => {
  const saver = await TurntreeSaver.open(path);
  const put = (id, run_id) =>
    saver.put(of("t"), { v: 4, id, ts: "", channel_values: {}, channel_versions: {}, versions_seen: {} },
      { source: "loop", step: 1, parents: {}, run_id }, {});
  await put("1", "a");
  await put("2", "b");
  await saver.deleteForRuns(["b", "none"]);
  assert.deepEqual((await all(saver.list(of("t")))).map((one) => one.checkpoint.id), ["1"]);
  await saver.close();
});

test("a serializer of one's own keeps everything opaque", async () => {
  const flip = (bytes) => bytes.map((byte) => byte ^ 0x55);
  const { serde } = new MemorySaver();
  const own = {
    async dumpsTyped(value) {
      const [kind, body] = await serde.dumpsTyped(value);
      return [`${kind}+flip`, flip(body)];
    },
    loadsTyped: (kind, body) => serde.loadsTyped(kind.replace("+flip", ""), flip(body)),
  };
  const saver = await TurntreeSaver.open(path, { serde: own });
  await chat(saver).invoke({ messages: [new HumanMessage("a secret")] }, of("t"));
  assert.deepEqual(texts(await chat(saver).getState(of("t"))), ["a secret", "you said a secret"]);
  const snapshot = await saver.store.snapshot("t");
  assert.deepEqual(await snapshot.messages(), []);
  for (const item of await snapshot.list("langgraph-items")) assert.ok(!item.includes("a secret"));
  await saver.close();
});

test("several savers on one store lose nothing", async () => {
  const savers = [await TurntreeSaver.open(path), await TurntreeSaver.open(path)];
  const run = async (worker) => {
    const saver = savers[worker % 2];
    for (let number = 0; number < 5; number += 1) {
      await chat(saver).invoke({ messages: [new HumanMessage(String(number))] }, of(`own ${worker}`));
      const config = of("shared", { checkpoint_ns: "", checkpoint_id: `${worker}-${number}` });
      await saver.putWrites(config, [["log", [worker, number]]], `task ${worker}`);
    }
  };
  await Promise.all([0, 1, 2, 3].map(run));
  for (const worker of [0, 1, 2, 3]) {
    assert.equal(texts(await chat(savers[0]).getState(of(`own ${worker}`))).length, 10);
  }
  assert.equal(await (await savers[0].store.snapshot("shared")).count("langgraph-writes"), 20);
  for (const saver of savers) await saver.close();
});

test("threads of any name, and errors as exceptions", async () => {
  const saver = await TurntreeSaver.open(path);
  const graph = chat(saver);
  const names = ["a/b", "..", "-x", "@", "é 1:2~3", "x.lock", "%2E", "a+b", "😀", "__proto__"];
  for (const name of names) await graph.invoke({ messages: [new HumanMessage(name)] }, of(name));
  const listed = new Set((await all(saver.list({}))).map((one) => one.config.configurable.thread_id));
  assert.deepEqual(listed, new Set(names));
  await assert.rejects(saver.putWrites(of("t"), [["x", 3]], "task"), InvalidInput);
  assert.equal(await saver.getTuple(of("t")), undefined);
  await assert.rejects(saver.getTuple(of("\ud800")), InvalidInput);
  await saver.close();
  await assert.rejects(saver.getTuple(of("t")), InvalidInput);
});

test("require gives the same saver, over the framework as it is required", async () => {
  const require = createRequire(import.meta.url);
  const required = require("turntree/langgraph");
  const saver = await required.TurntreeSaver.open(path);
  assert.ok(saver instanceof require("@langchain/langgraph-checkpoint").BaseCheckpointSaver);
  assert.ok(saver.store instanceof Store);
  await saver.close();
});

test("long-term memory answers as the one in memory", async () => {
  const ours = await TurntreeStore.open(path);
  const theirs = new InMemoryStore();
  for (const store of [ours, theirs]) {
    for (const user of ["a", "b", "a/c"]) {
      for (let number = 0; number < 5; number += 1) {
        await store.put(["users", user], `k${number}`, { n: number, text: `ü ${number}` });
      }
    }
    await store.put(["users", "a"], "k1", { n: 100 });
    await store.delete(["users", "b"], "k2");
    await store.put(["top"], "x/y", { n: null });
  }
  const operations = [
    { namespace: ["users", "a"], key: "k1" },
    { namespace: ["users", "a"], key: "none" },
    { namespace: ["top"], key: "x/y" },
    { namespacePrefix: ["users"], limit: 100 },
    { namespacePrefix: ["users", "a"], limit: 100 },
    { namespacePrefix: ["users"], filter: { n: 3 } },
    { namespacePrefix: ["users"], filter: { n: { $gte: 3 } }, limit: 100 },
    { namespacePrefix: [], limit: 100 },
    { matchConditions: [{ matchType: "prefix", path: ["users"] }], limit: 100, offset: 0 },
    { matchConditions: [{ matchType: "suffix", path: ["a/c"] }], limit: 100, offset: 0 },
    { matchConditions: [{ matchType: "prefix", path: ["*", "b"] }], limit: 100, offset: 0 },
  ];
  const plain = (result) => {
    if (Array.isArray(result)) return result.map(plain).map((one) => JSON.stringify(one)).sort();
    return result && "key" in Object(result) ? [result.namespace, result.key, result.value] : result;
  };
  for (const operation of operations) {
    const [[our], [their]] = await Promise.all([ours.batch([operation]), theirs.batch([operation])]);
    assert.deepEqual(plain(our), plain(their), JSON.stringify(operation));
  }
  for (const options of [{}, { maxDepth: 1 }, { prefix: ["users"] }, { limit: 2 }]) {
    const [our, their] = await Promise.all([ours.listNamespaces(options), theirs.listNamespaces(options)]);
    assert.deepEqual(options.limit ? our.length : plain(our), options.limit ? their.length : plain(their));
  }
  const item = await ours.get(["users", "a"], "k1");
  assert.ok(item.createdAt <= item.updatedAt);
  await assert.rejects(ours.search(["users"], { filter: { n: { $like: 1 } } }), InvalidInput);
  await ours.close();
});

for (const snapshotFrequency of [2, 3, 100]) {
  test(`the conversation follows a delta channel with a snapshot every ${snapshotFrequency}`, async () => {
    const channel = () => new DeltaChannel(messagesDeltaReducer, { snapshotFrequency });
    const talk = (checkpointer) => {
      const reply = ({ messages }) => {
        const said = messages.at(-1).text;
        if (said === "forget" && messages.length > 2) {
          return { messages: [new RemoveMessage({ id: messages[0].id }), new AIMessage({ content: "forgotten", id: `f${messages.length}` })] };
        }
        if (said === "rephrase") return { messages: [new HumanMessage({ content: "rephrased", id: messages[0].id })] };
        if (said === "begin again") return { messages: new Overwrite([new AIMessage({ content: "again", id: "again" })]) };
        return { messages: [new AIMessage({ content: `you said ${said}`, id: `a${messages.length}-${said}` })] };
      };
      const graph = new StateGraph({ channels: { messages: channel() } }).addNode("reply", reply).addEdge(START, "reply");
      return graph.compile({ checkpointer });
    };
    let seed = snapshotFrequency;
    const random = (below) => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return Math.floor((seed / 2147483648) * below);
    };
    let saver = await TurntreeSaver.open(path);
    for (let step = 0; step < 30; step += 1) {
      if (random(5) === 0) {
        await saver.close();
        saver = await TurntreeSaver.open(path);
      }
      const said = ["a", "b", "forget", "rephrase", "begin again"][random(5)];
      const states = await all(talk(saver).getStateHistory(of("t")));
      const at = states.length > 0 && random(4) === 0 ? { checkpoint_id: states[random(states.length)].config.configurable.checkpoint_id } : {};
      const input = { messages: [new HumanMessage({ content: said, id: `user-${step}` })] };
      if (states.length > 0 && random(5) === 0) await talk(saver).updateState(of("t", at), input, "reply");
      else await talk(saver).invoke(input, of("t", at));
      const shown = (await (await saver.store.snapshot("t")).messages()).map(({ record }) => JSON.parse(record).content);
      assert.deepEqual(shown, texts(await talk(saver).getState(of("t"))), `step ${step}`);
    }
    if (snapshotFrequency === 2) assert.ok((await (await saver.store.snapshot("t")).list("langgraph-items")).length > 0);
    await saver.prune?.(["t"]);
    await saver.close();
  });
}

test("a search with a query ranks by words", async () => {
  const memory = await TurntreeStore.open(path);
  const found = [
    "the parser fails on empty lines",
    "Lines of poems",
    "nothing to see",
    "empty empty parser lines, a long text about other things and more",
  ];
  for (const [number, text] of found.entries()) await memory.put(["users", "a"], `k${number}`, { text, tags: ["x", number] });
  await memory.put(["others"], "k", { text: "parser" });
  const keys = async (options) => (await memory.search(["users"], options)).map(({ key }) => key);
  assert.deepEqual(await keys({ query: "Parser LINES?" }), ["k0", "k3", "k1"]);
  assert.deepEqual(await keys({ query: "lines", limit: 1, offset: 1 }), ["k0"]);
  assert.deepEqual(await keys({ query: "absent" }), []);
  assert.deepEqual((await keys({ query: " " })).length, 4);
  const [{ score }] = await memory.search(["users"], { query: "nothing like it" });
  assert.ok(score > 0);
  await memory.close();
});

test("only a store that an adapter opened is closed", async () => {
  const store = await Store.open(path);
  for (const Adapter of [TurntreeSaver, TurntreeStore]) {
    await new Adapter(store).close();
    assert.deepEqual(await store.sessions(), []);
    const opened = await Adapter.open(path);
    await opened.close();
    await assert.rejects(opened.store.sessions());
  }
  await store.close();
});

// The Python package, where it is installed beside LangGraph.
const python = process.env.TURNTREE_PYTHON;

function inPython(script, ...options) {
  const ran = spawnSync(python, ["-B", "-c", script, ...options], { encoding: "utf8" });
  assert.equal(ran.status, 0, ran.stderr);
  return JSON.parse(ran.stdout);
}

const SAY = `
import json, sys
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from turntree.langgraph import TurntreeSaver

builder = StateGraph(MessagesState)
builder.add_node("reply", lambda state: {"messages": [AIMessage("you said " + state["messages"][-1].text)]})
builder.add_edge(START, "reply")
with TurntreeSaver(sys.argv[1]) as saver:
    graph = builder.compile(checkpointer=saver)
    thread = {"configurable": {"thread_id": "t"}}
    for said in sys.argv[2:]:
        graph.invoke({"messages": [HumanMessage(said)]}, thread)
    found = [[m.text for m in s.values.get("messages", ())] for s in graph.get_state_history(thread)]
    roles = [m.role for m in saver.store["t"].messages()]
    print(json.dumps({"history": found, "roles": roles}))
`;

test("Python and Node take turns in one thread", { skip: python ? false : "no TURNTREE_PYTHON" }, async () => {
  assert.equal(inPython(SAY, path, "one", "zwei ü").history.length, 6);
  const saver = await TurntreeSaver.open(path);
  const graph = chat(saver);
  const before = await history(graph, of("t"));
  assert.deepEqual(before[0], ["one", "you said one", "zwei ü", "you said zwei ü"]);
  const values = (await graph.getState(of("t"))).values.messages;
  assert.ok(values[0] instanceof HumanMessage && values[1] instanceof AIMessage);
  await graph.invoke({ messages: [new HumanMessage("three")] }, of("t"));
  const expected = await history(graph, of("t"));
  assert.deepEqual(expected[0], [...before[0], "three", "you said three"]);
  assert.equal(await (await saver.store.snapshot("t")).count("langgraph-items"), 6, "nothing is stored again");
  await saver.close();
  const read = inPython(SAY, path);
  assert.deepEqual(read.history, expected);
  assert.deepEqual(read.roles, ["user", "assistant", "user", "assistant", "user", "assistant"]);
  const more = inPython(SAY, path, "four");
  assert.deepEqual(more.history[0], [...expected[0], "four", "you said four"]);
  const again = await TurntreeSaver.open(path);
  assert.deepEqual(await history(chat(again), of("t")), more.history);
  await again.close();
});

test("Python and Node read each other's delta channels", { skip: python ? false : "no TURNTREE_PYTHON" }, async () => {
  const script = `
import json, sys
from typing import Annotated, Any, TypedDict
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from turntree.langgraph import TurntreeSaver
State = TypedDict("State", {"messages": Annotated[list[Any], DeltaChannel(_messages_delta_reducer, snapshot_frequency=2)]})
builder = StateGraph(State)
builder.add_node("reply", lambda state: {"messages": [AIMessage(f"you said {state['messages'][-1].text}")]})
builder.add_edge(START, "reply")
thread = {"configurable": {"thread_id": "t"}}
with TurntreeSaver(sys.argv[1]) as saver:
    graph = builder.compile(checkpointer=saver)
    for said in sys.argv[2:]:
        graph.invoke({"messages": [HumanMessage(said)]}, thread)
    print(json.dumps([message.text for message in graph.get_state(thread).values["messages"]]))
`;
  const first = inPython(script, path, "one", "two");
  const channel = new DeltaChannel(messagesDeltaReducer, { snapshotFrequency: 2 });
  const reply = ({ messages }) => ({ messages: [new AIMessage(`you said ${messages.at(-1).text}`)] });
  const graph = new StateGraph({ channels: { messages: channel } }).addNode("reply", reply).addEdge(START, "reply");
  const saver = await TurntreeSaver.open(path);
  const talk = graph.compile({ checkpointer: saver });
  assert.deepEqual(texts(await talk.getState(of("t"))), first);
  await talk.invoke({ messages: [new HumanMessage("three")] }, of("t"));
  const second = texts(await talk.getState(of("t")));
  assert.deepEqual(second, [...first, "three", "you said three"]);
  assert.equal((await (await saver.store.snapshot("t")).messages()).length, 6);
  await saver.close();
  assert.deepEqual(inPython(script, path, "four"), [...second, "four", "you said four"]);
});

test("what only Python has stays a value that says what it is", { skip: python ? false : "no TURNTREE_PYTHON" }, async () => {
  const script = `
import sys
from datetime import date
from langgraph.checkpoint.base import empty_checkpoint
from turntree.langgraph import TurntreeSaver
with TurntreeSaver(sys.argv[1]) as saver:
    made = {**empty_checkpoint(), "channel_values": {"when": date(2026, 1, 2), "n": {"a": [1, -5, 2.5, 2**40, b"x", None, True]}}, "channel_versions": {"when": "1", "n": "1"}}
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver.put(config, made, {"source": "loop", "step": 1}, {"when": "1", "n": "1"})
print("null")
`;
  inPython(script, path);
  const saver = await TurntreeSaver.open(path);
  const { channel_values: values } = (await saver.getTuple(of("t"))).checkpoint;
  assert.ok(values.when instanceof PythonValue);
  assert.deepEqual([values.when.module, values.when.name], ["datetime", "date"]);
  assert.deepEqual(values.n, { a: [1, -5, 2.5, 2 ** 40, Buffer.from("x"), null, true] });
  await saver.close();
});

test("a lost race is tried again and never an error of the graph", async () => {
  const saver = await TurntreeSaver.open(path);
  const other = await Store.open(path);
  const graph = chat(saver);
  await graph.invoke({ messages: [new HumanMessage("one")] }, of("t"));
  await other.transact("t", "by hand", (change) => change.put("notes", "a", Buffer.from("b")));
  await graph.invoke({ messages: [new HumanMessage("two")] }, of("t"));
  const found = await other.snapshot("t");
  assert.deepEqual([await found.keys("notes"), (await found.messages()).length], [["a"], 4]);
  const late = other.begin("t", "", { expect: found.parents[0] });
  late.put("notes", "c", Buffer.from("d"));
  await assert.rejects(late.commit(), Conflict);
  await other.close();
  await saver.close();
});

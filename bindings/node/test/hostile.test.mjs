// Hostile use: an error of its kind, never a crash, a hang, or another answer than was asked for.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, test } from "node:test";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { Conflict, InvalidInput, NotFound, Store, TurntreeError } from "turntree";
import { loadChat, saveChat } from "turntree/ai";
import { TurntreeSessionStore } from "turntree/claude";
import { TurntreeSaver, TurntreeStore } from "turntree/langgraph";
import { newPlace } from "./place.mjs";

let path;
beforeEach(() => {
  path = newPlace();
});

const bytes = (text) => Buffer.from(text);
const of = (thread, more = {}) => ({ configurable: { thread_id: thread, ...more } });

/** Names that every object has from its prototype, and other names that break careless code. */
const NAMES = ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "then", "length"];

async function all(found) {
  const read = [];
  for await (const one of found) read.push(one);
  return read;
}

/** The class of what a call throws; null when it throws nothing. */
async function thrown(call) {
  try {
    await call();
    return null;
  } catch (error) {
    assert.ok(error instanceof Error, `${String(error)} is no error`);
    return error;
  }
}

test("a store is never made among other files", async () => {
  mkdirSync(path);
  writeFileSync(join(path, "README.md"), "a project");
  await assert.rejects(Store.open(path), (error) => error instanceof InvalidInput && /\.turntree/.test(error.message));
  await assert.rejects(Store.open(join(path, "README.md")), TurntreeError);
  assert.deepEqual(readdirSync(path), ["README.md"]);
  await (await Store.open(join(path, ".turntree"))).close();
});

test("names of prototypes are names like others", async () => {
  const store = await Store.open(path);
  for (const name of NAMES) {
    await store.transact(`${name}/${name}`, name, (change) => {
      change.put(name, name, bytes(name));
      change.note(name, name);
      change.pushMessage(name, bytes("{}"), { agent: name, format: name });
    });
    const found = await store.snapshot(`${name}/${name}`);
    assert.deepEqual(await found.get(name, name), bytes(name));
    assert.deepEqual(Object.entries(found.metadata), [[name, name]]);
    assert.deepEqual(Object.keys(await found.sections()).sort(), [name, `agents/${name}/messages`].sort());
    assert.deepEqual(await found.agents(), [name]);
  }
  assert.deepEqual(await store.sessions(), [...NAMES].sort());
  await store.close();
});

test("every call refuses halves of surrogate pairs, in each of its texts", async () => {
  const store = await Store.open(path);
  await store.transact("task", "", (change) => change.put("kept", "a", bytes("1")));
  const [change, snapshot] = [store.begin("task"), await store.snapshot("task")];
  const half = "a\ud800";
  const calls = [
    () => Store.open(half),
    () => Store.open(path, { actor: half }),
    () => store.begin("task", half),
    () => store.begin(half),
    () => store.fork(half, "task"),
    () => store.fork("task/b", half),
    () => all(store.log(half)),
    () => store.diff("task", half),
    () => store.merge(half, "task"),
    () => store.merge("task", half),
    () => store.delete(half),
    () => store.retain(half, { turns: 1 }),
    () => store.branches(half),
    () => store.newest(half),
    () => change.on(half),
    () => change.putFile(half, bytes("")),
    () => change.putNew("kept", half, bytes("")),
    () => change.remove(half, "a"),
    () => change.push(half, bytes("")),
    () => change.pushMessage(half, bytes("")),
    () => change.setBlob(half, bytes("")),
    () => change.dropSection(half),
    () => change.note(half, ""),
    () => change.note("a", half),
    () => change.title(half),
    () => change.goOnFrom(half),
    () => change.commit(half),
    () => snapshot.count(half),
    () => snapshot.get("kept", half),
    () => snapshot.read(half),
    () => snapshot.scan("kept", half),
    () => snapshot.keys("kept", "", { after: half }),
    () => snapshot.messages(half),
  ];
  for (const call of calls) assert.ok((await thrown(call)) instanceof InvalidInput, String(call));
  assert.equal(await change.commit(), await store.tip("task"), "none of them did anything");
  await store.close();
});

test("every call on what is closed says so", async () => {
  const store = await Store.open(path);
  await store.transact("task", "", (change) => change.put("kept", "a", bytes("1")));
  const saver = new TurntreeSaver(store);
  const [memory, transcripts, change] = [new TurntreeStore(store), new TurntreeSessionStore(store), store.begin("task")];
  await store.close();
  const key = { projectKey: "p", sessionId: "s" };
  const calls = [
    () => store.branches(),
    () => store.newest("task"),
    () => store.snapshot("task"),
    () => store.fork("task/b", "task"),
    () => store.diff("task", "task"),
    () => store.merge("task", "task"),
    () => store.redo(),
    () => store.delete("task"),
    () => store.retain("task"),
    () => change.goOnFrom("task"),
    () => change.commit(),
    () => saver.getTuple(of("t")),
    () => all(saver.list(of("t"))),
    () => saver.put(of("t"), { id: "1", v: 4, channel_values: {}, channel_versions: {}, versions_seen: {} }, {}, {}),
    () => saver.putWrites(of("t", { checkpoint_id: "1" }), [["x", 1]], "task"),
    () => saver.deleteThread("t"),
    () => saver.copyThread("t", "u"),
    () => memory.put(["a"], "k", {}),
    () => memory.get(["a"], "k"),
    () => transcripts.load(key),
    () => transcripts.append(key, [{ type: "x" }]),
    () => transcripts.listSessions("p"),
    () => transcripts.delete(key),
    () => loadChat(store, "c"),
    () => saveChat(store, { chatId: "c", messages: [] }),
  ];
  for (const call of calls) assert.ok((await thrown(call)) instanceof InvalidInput, String(call));
});

test("threads, sessions and chats that never were are empty", async () => {
  const store = await Store.open(path);
  const saver = new TurntreeSaver(store);
  assert.equal(await saver.getTuple(of("none")), undefined);
  assert.equal(await saver.getTuple(of("none", { checkpoint_id: "1", checkpoint_ns: "a|b" })), undefined);
  assert.deepEqual(await all(saver.list(of("none"))), []);
  await saver.deleteThread("none");
  await saver.copyThread("none", "other");
  await saver.prune(["none"]);
  await saver.prune(["none"], { strategy: "delete" });
  await saver.deleteForRuns(["none"]);
  const memory = new TurntreeStore(store);
  assert.deepEqual([await memory.get(["a"], "k"), await memory.search(["a"]), await memory.listNamespaces()], [null, [], []]);
  const transcripts = new TurntreeSessionStore(store);
  const key = { projectKey: "p", sessionId: "s" };
  assert.deepEqual([await transcripts.load(key), await transcripts.listSessions("p")], [null, []]);
  await transcripts.delete(key);
  assert.deepEqual(await loadChat(store, "none"), []);
  await assert.rejects(store.snapshot("none"), NotFound);
  assert.deepEqual(await store.sessions(), []);
  await store.close();
});

/** A value nested this deep: too deep for code that calls a function for each level. */
function nested(depth, make = (inner) => ({ inner })) {
  let value = null;
  for (let level = 0; level < depth; level += 1) value = make(value);
  return value;
}

function circular() {
  const value = { name: "itself" };
  value.self = value;
  return value;
}

const trap = {
  get value() {
    throw new RangeError("a getter");
  },
};

const VALUES = {
  "contains itself": circular,
  "a large integer": () => ({ count: 3n }),
  "a function": () => ({ call: () => 1 }),
  "a symbol": () => ({ name: Symbol("x") }),
  "a getter that throws": () => ({ trap }),
  "a proxy that throws": () => new Proxy({}, { ownKeys: () => { throw new TypeError("a proxy"); } }),
  "toJSON that throws": () => ({ toJSON: () => { throw new EvalError("no JSON"); } }),
  "nothing": () => undefined,
  "no number": () => ({ numbers: [Number.NaN, Number.POSITIVE_INFINITY, -0] }),
  "a map, a set, a date": () => ({ map: new Map([[1, 2]]), set: new Set([1]), date: new Date(0) }),
  "names of prototypes": () => JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'),
  "halves of surrogate pairs": () => ({ "\ud800": "\udfff" }),
  "a thousand levels": () => nested(1000),
  "a hundred thousand levels": () => nested(100_000),
  "levels of lists": () => nested(100_000, (inner) => [inner]),
  "ten thousand entries": () => Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`k${n}`, n])),
  "a million characters": () => ({ text: "x".repeat(1_000_000) }),
};

function chat(checkpointer) {
  const reply = (state) => ({ messages: [new AIMessage(`${state.messages.length}`)] });
  const graph = new StateGraph(MessagesAnnotation).addNode("reply", reply).addEdge(START, "reply");
  return graph.compile({ checkpointer });
}

for (const [name, make] of Object.entries(VALUES)) {
  test(`in a message, in an artifact and in a channel: ${name}`, async () => {
    const store = await Store.open(path);
    const graph = chat(new TurntreeSaver(store));
    await graph.invoke({ messages: [new HumanMessage("before")] }, of("t"));
    const said = () => [
      new HumanMessage({ id: "1", content: "hi", additional_kwargs: { value: make() } }),
      new ToolMessage({ id: "2", content: "done", tool_call_id: "c", artifact: make() }),
    ];
    const refused = await thrown(() => graph.invoke({ messages: said() }, of("t")));

    // Whatever was refused: the thread is whole, is shown, and others go on.
    const fresh = new TurntreeSaver(store);
    const read = await thrown(() => fresh.getTuple(of("t")));
    if (refused) assert.equal(read, null, String(read?.stack));
    if (!read) {
      const texts = (await chat(fresh).getState(of("t"))).values.messages.map((message) => message.text);
      assert.deepEqual(texts.slice(0, 2), ["before", "1"]);
      assert.equal(texts.length, (await (await store.snapshot("t")).messages()).length);
    }

    const channels = { plain: make(), list: [make()], constructor: "own" };
    const versions = { plain: 1, list: 1, constructor: 1, toString: 1 };
    const checkpoint = { v: 4, id: "1", ts: "", channel_values: channels, channel_versions: versions, versions_seen: {} };
    const [config, at] = [of("u", { checkpoint_ns: "" }), of("u", { checkpoint_ns: "", checkpoint_id: "1" })];
    const put = await thrown(() => fresh.put(config, checkpoint, { step: 1 }, versions));
    await thrown(() => fresh.putWrites(at, [["constructor", make()], ["x", 1]], "task"));
    await thrown(() => fresh.getTuple(at));
    if (put) assert.equal(await fresh.getTuple(at), undefined, "nothing of it is stored");
    assert.equal({}.polluted, undefined);
    await store.transact("other", "", (change) => change.put("kept", "a", bytes("1")));
    await store.close();
  });
}

test("channels with the names of prototypes come back, and only those that a checkpoint has", async () => {
  const saver = await TurntreeSaver.open(path);
  // The framework's own serializer loses `__proto__`.
  const values = Object.fromEntries(NAMES.slice(1, 4).map((name) => [name, [{ name }]]));
  const versions = Object.fromEntries(NAMES.map((name) => [name, 1]));
  const checkpoint = { v: 4, id: "1", ts: "", channel_values: values, channel_versions: versions, versions_seen: {} };
  await saver.put(of("t"), checkpoint, { step: 1 }, versions);
  const at = of("t", { checkpoint_ns: "", checkpoint_id: "1" });
  await saver.putWrites(at, NAMES.map((name) => [name, name]), "task");
  const found = await saver.getTuple(of("t"));
  assert.deepEqual(Object.entries(found.checkpoint.channel_values), Object.entries(values));
  assert.deepEqual(found.pendingWrites.map(([, channel]) => channel), NAMES);
  await saver.close();
});

test("what is no JSON is an error for transcripts, chats and memory, and nothing of it is stored", async () => {
  const store = await Store.open(path);
  const [memory, transcripts] = [new TurntreeStore(store), new TurntreeSessionStore(store)];
  const key = { projectKey: "p", sessionId: "s" };
  for (const name of ["contains itself", "a large integer", "toJSON that throws", "a hundred thousand levels"]) {
    const value = VALUES[name]();
    assert.ok(await thrown(() => transcripts.append(key, [{ type: "user", value }])), name);
    assert.ok(await thrown(() => memory.put(["a"], "k", value)), name);
    assert.ok(await thrown(() => saveChat(store, { chatId: "c", messages: [{ id: "1", role: "user", parts: [value] }] })), name);
  }
  const wrong = [
    () => transcripts.append({ projectKey: 3, sessionId: "s" }, [{ type: "x" }]),
    () => transcripts.append({ projectKey: "p" }, [{ type: "x" }]),
    () => transcripts.load(null),
    () => transcripts.append(key, [undefined]),
    () => memory.put("a", "k", {}),
    () => memory.search(["a"], { filter: { a: { $constructor: 1 } } }),
    () => saveChat(store, { chatId: 3, messages: [] }),
  ];
  for (const call of wrong) {
    const error = await thrown(call);
    if (error) assert.ok(error instanceof TypeError || error instanceof InvalidInput || error.name.startsWith("Invalid"), `${call}: ${error.stack}`);
  }
  assert.deepEqual(await store.sessions(), []);
  const odd = JSON.parse('{"type":"user","__proto__":{"polluted":1},"constructor":"x","uuid":"__proto__"}');
  await transcripts.append(key, [odd, odd]);
  const [back, ...others] = await transcripts.load(key);
  assert.deepEqual([Object.keys(back), others], [Object.keys(odd), []]);
  assert.equal({}.polluted, undefined);
  for (const name of NAMES) {
    await memory.put([name], name, { [name]: name });
    assert.deepEqual(Object.entries((await memory.get([name], name)).value), [[name, name]]);
    assert.equal((await memory.search([name], { filter: { constructor: "missing" } })).length, 0);
  }
  await store.close();
});

test("options that throw, or that are of other kinds, are exceptions", async () => {
  const store = await Store.open(path);
  const thrower = new Proxy({}, { get: () => { throw new RangeError("an option"); } });
  for (const call of [
    () => Store.open(path, thrower),
    () => store.begin("task", "", thrower),
    () => store.retain("task", thrower),
    () => store.collect(thrower),
  ]) {
    assert.ok((await thrown(call)) instanceof RangeError, String(call));
  }
  for (const call of [
    () => Store.open(path, null),
    () => store.begin("task", "", null),
    () => store.begin("task", {}),
    () => store.collect(null),
    () => store.collect({ repack: 1 }),
    () => store.transact("task", "", "no function"),
    () => store.merge({}, []),
    () => store.log(),
  ]) {
    assert.ok((await thrown(async () => { const made = call(); if (made?.next) await all(made); await made; })) instanceof TypeError, String(call));
  }
  assert.equal(await store.tip("task"), null);
  await store.close();
});

test("a race that is lost again and again is a conflict for one and a snapshot for the other", async () => {
  const [one, two] = [await Store.open(path), await Store.open(path)];
  for (let round = 0; round < 20; round += 1) {
    const tip = await one.tip("task");
    const commit = (store, name) => store.transact("task", name, (change) => change.put("kept", `${round}-${name}`, bytes("1")), { expect: tip });
    const ended = await Promise.allSettled([commit(one, "one"), commit(two, "two")]);
    const lost = ended.filter((end) => end.status === "rejected");
    assert.equal(lost.length, 1);
    assert.ok(lost[0].reason instanceof Conflict);
  }
  assert.equal(await (await two.snapshot("task")).count("kept"), 20);
  await one.close();
  await two.close();
});

test("a damaged store answers as before or with an error of its kind, wherever the damage is", async () => {
  const store = await Store.open(path, { maintain: false });
  for (let turn = 0; turn < 5; turn += 1) {
    await store.transact("task", "", (change) => {
      change.put("kept", `${turn}`, bytes(`content ${turn}`.repeat(100)));
      change.push("log", bytes(`${turn}`));
    });
  }
  await store.close();
  const journal = join(path, "journal");
  const file = join(journal, readdirSync(journal).find((name) => readFileSync(join(journal, name)).length > 0));
  const whole = readFileSync(file);
  const end = whole.findLastIndex((byte) => byte !== 0) + 1;
  for (let at = 0; at < end; at += Math.ceil(end / 60)) {
    const damaged = Buffer.from(whole);
    damaged[at] ^= 0x55;
    writeFileSync(file, damaged);
    const read = async () => {
      const opened = await Store.open(path, { maintain: false });
      try {
        const snapshot = await opened.snapshot("task");
        for (const [key, content] of await snapshot.scan("kept")) {
          assert.equal(String(content), `content ${key}`.repeat(100));
        }
        await snapshot.list("log");
      } finally {
        await opened.close();
      }
    };
    const error = await thrown(read);
    if (error) assert.ok(error instanceof TurntreeError, `at ${at}: ${error.stack}`);
  }
});

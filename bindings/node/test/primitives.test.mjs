// The primitives: what adapters and users of the package rely on.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync, readdirSync, readlinkSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { beforeEach, test } from "node:test";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import * as turntree from "turntree";
import { newPlace, root } from "./place.mjs";

const { Conflict, InvalidInput, NotFound, Store, TurntreeError } = turntree;
let path;
beforeEach(() => {
  path = newPlace();
});

const bytes = (text) => Buffer.from(text);

async function put(store, key, content, branch = "task") {
  await store.transact(branch, `put ${key}`, (change) => change.put("kept", key, bytes(content)));
  return store.tip(branch);
}

async function all(found) {
  const read = [];
  for await (const one of found) read.push(one);
  return read;
}

test("one copy of every class, whichever way it is loaded", async () => {
  const required = createRequire(import.meta.url)("turntree");
  for (const [name, value] of Object.entries(required)) assert.equal(value, turntree[name], name);
  assert.equal(required.Store, Store);
  const { version } = createRequire(import.meta.url)("turntree/package.json");
  assert.equal(turntree.version, version);
});

test("a store that is closed says so, and what was read holds what it needs", async () => {
  const store = await Store.open(path);
  await put(store, "a", "1");
  const snapshot = await store.snapshot("task");
  const change = store.begin("task");
  assert.deepEqual([store.path, store.closed], [path, false]);
  await store[Symbol.asyncDispose]();
  assert.equal(store.closed, true);
  const closed = { name: "InvalidInput", kind: "invalid-input", message: /closed/ };
  const calls = [
    () => store.sessions(),
    () => store.undo(),
    () => store.tip("task"),
    () => change.commit(),
    () => store.collect(),
    () => all(store.log("task")),
    () => store.transact("task", "", () => {}),
  ];
  for (const call of calls) await assert.rejects(call, closed);
  assert.throws(() => store.begin("x"), closed);
  assert.deepEqual(await snapshot.get("kept", "a"), bytes("1"));
  await store.close();
});

test("what is closed while others work ends well for them", async () => {
  const store = await Store.open(path);
  const working = Array.from({ length: 20 }, (_, n) => put(store, String(n), "x"));
  const [ended] = await Promise.all([Promise.allSettled(working), store.close()]);
  for (const one of ended) {
    assert.ok(one.status === "fulfilled" || one.reason instanceof InvalidInput, one.reason);
  }
});

test("paths may be text or URLs and relative ones stay", async () => {
  const before = process.cwd();
  process.chdir(root);
  const store = await Store.open(basename(path));
  process.chdir("/");
  await put(store, "a", "1");
  await store.close();
  process.chdir(before);
  const url = pathToFileURL(path);
  const again = await Store.open(url, { create: false });
  assert.deepEqual(await again.sessions(), ["task"]);
  await again.close();
  await assert.rejects(Store.open(join(root, "none"), { create: false }), NotFound);
});

test("a change is committed when its function ends well and only then", async () => {
  const store = await Store.open(path);
  const failing = store.transact("task", "", (change) => {
    change.put("kept", "a", bytes("1"));
    throw new RangeError("no");
  });
  await assert.rejects(failing, RangeError);
  assert.equal(await store.tip("task"), null);
  const change = store.begin("task");
  change.put("kept", "a", bytes("1"));
  const first = await change.commit("by hand");
  assert.equal(await store.tip("task"), first);
  const finished = { name: "InvalidInput", message: /finished/ };
  assert.throws(() => change.put("kept", "b", bytes("2")), finished);
  await assert.rejects(change.commit(), finished);
  await assert.rejects(change.goOnFrom("task"), finished);
  assert.equal((await store.snapshot("task")).title, "by hand");
  await store.close();
});

test("entries, records and messages", async () => {
  const store = await Store.open(path);
  const said = bytes('{"role":"user","content":"hi"}');
  await store.transact("task", "first", (change) => {
    for (let number = 0; number < 200; number += 1) {
      change.put("kept", `k/${String(number).padStart(3, "0")}`, bytes(`${number}`));
      change.push("log", bytes(`${number}`));
    }
    change.put("kept", "other", new Uint8Array([0, 255]));
    change.put("kept", "none", new Uint8Array(0));
    change.put("kept", "shared", new Uint8Array(new SharedArrayBuffer(2)));
    change.pushMessage("user", said);
    change.setBlob("note", bytes("a blob"));
    change.note("model", "none");
  });
  const found = await store.snapshot("task");
  assert.deepEqual(await found.sections(), {
    "agents/main/messages": "list",
    kept: "map",
    log: "list",
    note: "blob",
  });
  assert.deepEqual(await found.get("kept", "other"), Buffer.from([0, 255]));
  assert.deepEqual(await found.get("kept", "none"), Buffer.alloc(0));
  assert.deepEqual(await found.get("kept", "shared"), Buffer.alloc(2));
  assert.equal(await found.get("kept", "nothing"), null);
  assert.equal(await found.get("nothing", "nothing"), null);
  assert.equal(await found.count("log"), 200);
  assert.deepEqual(await found.read("note"), bytes("a blob"));
  assert.deepEqual(await found.scan("kept", "k/", { after: "k/197" }), [
    ["k/198", bytes("198")],
    ["k/199", bytes("199")],
  ]);
  assert.deepEqual(await found.keys("kept", "k/", { reverse: true, limit: 2 }), ["k/199", "k/198"]);
  assert.deepEqual(await found.keys("kept", "k/", { after: "k/001", reverse: true }), ["k/000"]);
  assert.deepEqual(await found.list("log", 198), [bytes("198"), bytes("199")]);
  assert.deepEqual(await found.list("log", 5, 6), [bytes("5")]);
  const message = { role: "user", format: "json", origin: null, record: said };
  assert.deepEqual(await found.messages(), [message]);
  assert.deepEqual([await found.agents(), found.metadata], [["main"], { model: "none" }]);
  const { turn, title, session, parents, author } = found;
  assert.deepEqual([turn, title, session, parents, author], [1, "first", "task", [], "node"]);
  assert.ok(found.timeMicros > 1.6e15);
  await store.close();
});

test("history, forks, differences and merges", async () => {
  const store = await Store.open(path);
  const first = await put(store, "a", "1");
  const second = await put(store, "b", "2");
  assert.deepEqual((await all(store.log("task"))).map((one) => one.id), [second, first]);
  assert.equal(await store.fork("task/other", first), first);
  await assert.rejects(store.fork("task/other", second), Conflict);
  await put(store, "c", "3", "task/other");
  assert.deepEqual(await store.branches("task"), ["task/main", "task/other"]);
  const expected = [["kept/b", "removed"], ["kept/c", "added"]];
  assert.deepEqual(await store.diff("task", "task/other"), expected);
  const [older, newer] = [await store.snapshot("task"), await store.snapshot("task/other")];
  assert.deepEqual(await newer.changesSince(older), expected);
  const merged = await store.merge("task", "task/other");
  assert.deepEqual([merged.kind, merged.conflicts], ["merged", []]);
  assert.deepEqual(await (await store.snapshot("task")).keys("kept"), ["a", "b", "c"]);
  assert.match(await store.undo(), /merge/);
  assert.equal(await store.tip("task"), second);
  assert.ok(await store.redo());
  assert.equal(await store.tip("task"), merged.id);
  assert.deepEqual([await store.delete("task"), await store.delete("task")], [true, false]);
  assert.deepEqual(await store.sessions(), []);
  await store.close();
});

test("long histories are read as they are asked for", async () => {
  const store = await Store.open(path);
  for (let number = 0; number < 150; number += 1) await put(store, String(number), "");
  const turns = (await all(store.log("task"))).map((one) => one.turn);
  assert.deepEqual(turns, Array.from({ length: 150 }, (_, n) => 150 - n));
  for await (const newest of store.log("task")) {
    assert.equal(newest.turn, 150);
    break;
  }
  await store.close();
});

test("one change of several branches is one operation", async () => {
  const store = await Store.open(path);
  const tip = await put(store, "a", "1");
  const both = async (change) => {
    change.push("log", bytes("1"));
    await change.on("two", { expect: null }).goOnFrom("task");
    change.on("task", { expect: tip }).delete();
  };
  await store.transact("one", "both", both, { expect: null });
  assert.deepEqual(await store.sessions(), ["one", "two"]);
  assert.equal(await store.tip("two"), tip);
  await store.undo();
  assert.deepEqual(await store.sessions(), ["task"]);
  await store.transact("task", "anew", (change) => {
    change.startOver();
    change.put("kept", "b", bytes("2"));
  });
  const found = await store.snapshot("task");
  assert.deepEqual([found.parents, await found.keys("kept")], [[], ["b"]]);
  await store.close();
});

test("an expected tip is held to", async () => {
  const store = await Store.open(path);
  const tip = await put(store, "a", "1");
  await put(store, "a", "2");
  const change = store.begin("task", "", { expect: tip });
  change.put("kept", "a", bytes("3"));
  await assert.rejects(change.commit(), (error) => {
    assert.ok(error instanceof Conflict && error instanceof TurntreeError && error instanceof Error);
    return error.kind === "conflict";
  });
  assert.deepEqual(await (await store.snapshot("task")).get("kept", "a"), bytes("2"));
  const kept = store.begin("task");
  kept.putNew("kept", "a", bytes("4"));
  assert.equal(await kept.commit(), await store.tip("task"));
  assert.deepEqual(await (await store.snapshot("task")).get("kept", "a"), bytes("2"));
  await store.close();
});

test("wrong arguments are exceptions and nothing else", async () => {
  const store = await Store.open(path);
  await put(store, "a", "1");
  const [change, snapshot] = [store.begin("task"), await store.snapshot("task")];
  const fails = async (call, kind) => assert.rejects(async () => call(), kind, String(call));
  const wrongTypes = [
    () => Store.open(3),
    () => Store.open(),
    () => Store.open(path, { actor: 3 }),
    () => Store.open(path, { create: "yes" }),
    () => store.tip(null),
    () => store.tip(3n),
    () => store.tip(Symbol("x")),
    () => store.begin("task", "", { expect: 3 }),
    () => change.put("s", "k", "text"),
    () => change.put("s", "k", new Uint16Array(3)),
    () => change.put("s", "k", new ArrayBuffer(3)),
    () => change.put("s", 3, bytes("")),
    () => change.putFile("a.txt", "text"),
    () => change.putFile("a.txt", bytes(""), { mode: 7 }),
    () => change.push("s", null),
    () => change.cut("s", 3n),
    () => snapshot.list("s", "x"),
    () => snapshot.list("s", 0, 3n),
    () => snapshot.scan("kept", "", { limit: 3n }),
    () => snapshot.changesSince("task"),
    () => store.retain("task", { turns: "x" }),
    () => store.retain("task", { seconds: "x" }),
    () => Reflect.construct(Store, []).tip("task"),
    () => Store.prototype.tip.call({}, "task"),
  ];
  for (const call of wrongTypes) await fails(call, TypeError);
  const invalid = [
    () => store.tip("a b"),
    () => store.tip(""),
    () => store.begin("a..b"),
    () => store.begin("task", "", { expect: "no id" }),
    () => change.put("", "k", bytes("")),
    () => change.put("s", "", bytes("")),
    () => change.put("s/t", "k", bytes("")),
    () => change.put("files", "../up", bytes("")),
    () => change.putFile("../up", bytes("")),
    () => change.putFile("up", bytes(""), { mode: "folder" }),
    () => change.push("agents/main/messages", bytes("")),
    () => change.pushMessage("user", bytes(""), { agent: "a/b" }),
    () => change.cut("s", 1.5),
    () => snapshot.list("kept"),
    () => snapshot.list("kept", -1),
    () => snapshot.list("log", 0, Number.NaN),
    () => snapshot.scan("kept", "", { limit: -1 }),
    () => store.retain("task", { seconds: -1 }),
    () => store.retain("task", { seconds: Number.NaN }),
    () => store.retain("task", { turns: 2 ** 60 }),
    () => store.snapshot("task:kept"),
    () => store.tip("\ud800"),
    () => change.put("s", "k\udfff", bytes("")),
  ];
  for (const call of invalid) await fails(call, InvalidInput);
  for (const missing of ["none", "task/none", "0".repeat(64), "task~9"]) {
    await fails(() => store.snapshot(missing), NotFound);
  }
  await fails(() => change.put("s", "k".repeat(5000), bytes("")), TurntreeError);
  await store.close();
});

test("files of the workspace have their modes", async () => {
  const store = await Store.open(path);
  await store.transact("task", "files", (change) => {
    change.putFile("src/a.txt", bytes("text"));
    change.putFile("run.sh", bytes("#!/bin/sh\n"), { mode: "executable" });
    change.putFile("to-a", bytes("src/a.txt"), { mode: "link" });
  });
  const newest = await store.snapshot("task");
  assert.deepEqual(await newest.keys("files"), ["run.sh", "src/a.txt", "to-a"]);
  assert.deepEqual(await newest.read("files/src/a.txt"), bytes("text"));
  await store.close();
  // The program, where the tests find it, lays them out.
  const program = process.env.TURNTREE_PROGRAM;
  if (!program) return;
  const out = `${path}-out`;
  const child = spawn(program, ["--store", path, "restore", "task", "--to", out], { stdio: "ignore" });
  assert.deepEqual(await once(child, "exit"), [0, null]);
  assert.equal(statSync(join(out, "files/run.sh")).mode & 0o111, 0o111);
  assert.equal(statSync(join(out, "files/src/a.txt")).mode & 0o111, 0);
  assert.equal(readlinkSync(join(out, "files/to-a")), "src/a.txt");
});

test("a large journal is packed when the store is closed, also while something of it is held", async () => {
  const packs = (place) => readdirSync(join(place, "packs")).filter((name) => name.endsWith(".pack"));
  for (const maintain of [true, false]) {
    const place = `${path}-${maintain}`;
    const store = await Store.open(place, { maintain });
    const content = randomBytes(5 << 20);
    await store.transact("task", "much", (change) => change.put("kept", "a", content));
    const held = await store.snapshot("task");
    const closing = store.close();
    assert.equal(store.closed, true, "closed as soon as it is asked to be");
    await closing;
    assert.equal(packs(place).length, maintain ? 1 : 0);
    assert.ok(content.equals(await held.get("kept", "a")));
    const again = await Store.open(place, { maintain: false });
    assert.ok(content.equals(await (await again.snapshot("task")).get("kept", "a")));
    await again.close();
  }
});

test("more bytes than a blob may have are refused before they are copied", async () => {
  const store = await Store.open(path);
  const huge = new Uint8Array(2 ** 31 + 1);
  const change = store.begin("task");
  const refused = { name: "LimitExceeded", kind: "limit-exceeded" };
  assert.throws(() => change.put("s", "k", huge), refused);
  assert.throws(() => change.setBlob("s", huge), refused);
  await store.close();
});

test("damage is an error of its kind", async () => {
  const store = await Store.open(path);
  await put(store, "a", "1");
  await store.close();
  writeFileSync(join(path, "superblock"), "nothing of ours");
  await assert.rejects(Store.open(path), TurntreeError);
  const file = newPlace();
  writeFileSync(file, "no folder");
  await assert.rejects(Store.open(join(file, "store")), TurntreeError);
});

test("retention drops old turns", async () => {
  const store = await Store.open(path);
  for (let number = 0; number < 30; number += 1) await put(store, String(number), "x");
  await store.retain("task", { turns: 5 });
  assert.ok((await store.collect()).writtenBytes >= 0);
  assert.equal((await all(store.log("task")))[0].turn, 30);
  await store.retain("task");
  await store.retain(null, { seconds: 1e6, budgetBytes: 2 ** 40 });
  assert.ok((await store.collect({ repack: true })).writtenBytes >= 0);
  await store.close();
});

test("many calls at once and other threads lose nothing", async () => {
  const store = await Store.open(path);
  const script = `
    const { workerData } = require("node:worker_threads");
    const { Store } = require(workerData.turntree);
    (async () => {
      const store = await Store.open(workerData.path);
      for (let n = 0; n < 20; n += 1) {
        await store.transact("task", "", (change) => change.push("log", Buffer.from("worker " + n)));
      }
      await store.close();
    })();
  `;
  const workerData = { path, turntree: createRequire(import.meta.url).resolve("turntree") };
  const worker = new Worker(script, { eval: true, workerData });
  const ended = once(worker, "exit");
  const push = (n) => store.transact("task", "", (change) => change.push("log", bytes(`main ${n}`)));
  await Promise.all(Array.from({ length: 50 }, (_, n) => push(n)));
  assert.deepEqual(await ended, [0]);
  const log = (await (await store.snapshot("task")).list("log")).map(String).sort();
  const expected = [
    ...Array.from({ length: 50 }, (_, n) => `main ${n}`),
    ...Array.from({ length: 20 }, (_, n) => `worker ${n}`),
  ].sort();
  assert.deepEqual(log, expected);
  await store.close();
});

test("ending a thread in the midst of its calls ends no other thread", async () => {
  const script = `
    const { parentPort, workerData } = require("node:worker_threads");
    const { Store } = require(workerData.turntree);
    (async () => {
      const store = await Store.open(workerData.path);
      parentPort.postMessage("ready");
      for (;;) await store.transact("task", "", (change) => change.push("log", Buffer.from("x")));
    })();
  `;
  const workerData = { path, turntree: createRequire(import.meta.url).resolve("turntree") };
  const worker = new Worker(script, { eval: true, workerData });
  await once(worker, "message");
  await worker.terminate();
  const store = await Store.open(path);
  await put(store, "after", "1");
  await store.close();
});

test("processes that are killed lose nothing they were told is kept", async () => {
  const writer = `
    import { Store } from "turntree";
    const [path, name, count] = process.argv.slice(1);
    const store = await Store.open(path);
    for (let n = 0; n < Number(count); n += 1) {
      await store.transact("task", "", (change) => change.push("log", Buffer.from(name + " " + n)));
      console.log(n);
    }
    await store.close();
  `;
  const start = (...options) =>
    spawn(process.execPath, ["--input-type=module", "-e", writer, ...options], {
      stdio: ["ignore", "pipe", "inherit"],
    });
  const untilKilled = async (name, at) => {
    const child = start(path, name, "100000");
    const exit = once(child, "exit");
    let told = -1;
    for await (const line of createInterface(child.stdout)) {
      told = Number(line);
      if (told === at) child.kill("SIGKILL");
    }
    assert.deepEqual(await exit, [null, "SIGKILL"]);
    return told;
  };
  const turns = async (child) => {
    child.stdout.resume();
    assert.deepEqual(await once(child, "exit"), [0, null]);
  };
  // The program, where the tests find it: it takes turns on the same session.
  const program = process.env.TURNTREE_PROGRAM;
  const commands = async () => {
    for (let n = 0; program && n < 10; n += 1) {
      const options = ["--store", path, "fork", `from-program-${n}`, "task"];
      const child = spawn(program, options, { stdio: ["ignore", "ignore", "pipe"] });
      const said = [];
      child.stderr.on("data", (data) => said.push(data));
      const [code] = await once(child, "exit");
      assert.equal(code, 0, Buffer.concat(said).toString());
    }
  };
  const seed = await Store.open(path);
  await put(seed, "first", "1");
  const [told] = await Promise.all([untilKilled("killed", 30), turns(start(path, "other", "60")), commands()]);
  const found = await seed.snapshot("task");
  const log = (await found.list("log")).map(String);
  const own = (name) => log.filter((record) => record.startsWith(name));
  const counted = (name, count) => Array.from({ length: count }, (_, n) => `${name} ${n}`);
  assert.ok(own("killed").length > told, "nothing that was acknowledged is lost");
  assert.deepEqual(own("killed"), counted("killed", own("killed").length));
  assert.deepEqual(own("other"), counted("other", 60));
  const branches = await seed.branches("task");
  assert.equal(branches.length, program ? 11 : 1, branches.join());
  await seed.close();
});

test("the native library does what its declaration says, and no more", () => {
  const declared = readFileSync(createRequire(import.meta.url).resolve("turntree").replace("index.cjs", "native.d.cts"), "utf8");
  const library = join(createRequire(import.meta.url).resolve("turntree"), "../../native", `${process.platform}-${process.arch}.node`);
  const native = createRequire(import.meta.url)(library);
  for (const name of ["Store", "Snapshot", "Transaction", "LogPage"]) {
    const body = declared.split(`interface Native${name} {`)[1].split("\n}")[0];
    const expected = [...body.matchAll(/^ {4}(?:readonly )?(\w+)[(:]/gm)].map((match) => match[1]).sort();
    const found = Object.getOwnPropertyNames(native[name].prototype).filter((one) => one !== "constructor").sort();
    assert.deepEqual(found, expected, name);
  }
});

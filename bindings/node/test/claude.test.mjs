// The Claude Agent SDK: the contracts of its session stores in our words, and what is promised beyond them.

import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { foldSessionSummary } from "@anthropic-ai/claude-agent-sdk";
import { InvalidInput, Store } from "turntree";
import { TurntreeSessionStore } from "turntree/claude";
import { newPlace } from "./place.mjs";

let store;
let path;
beforeEach(async () => {
  path = newPlace();
  store = await TurntreeSessionStore.open(path);
});
afterEach(() => store.close());

const KEY = { projectKey: "-home-me-project", sessionId: "5a0c8b1e-1f6b-4f61-9d3a-0d7b8f6c1a2b" };
const AGENT = { ...KEY, subpath: "subagents/agent-1" };

function entry(number, kind = "user", more = {}) {
  const message = { role: kind, content: `entry ${number}` };
  return { type: kind, uuid: `u${number}`, timestamp: "2026-01-01T00:00:00Z", message, ...more };
}

const entries = (count) => Array.from({ length: count }, (_, number) => entry(number));

describe("the contracts of session stores", () => {
  test("1: what was appended is loaded, deeply equal and in order", async () => {
    const odd = { type: "x", deep: { list: [1, null, { a: "ü😀\u0000" }], nothing: {} } };
    await store.append(KEY, [...entries(3), odd]);
    assert.deepEqual(await store.load(KEY), [...entries(3), odd]);
  });

  test("2: what was never written is null", async () => {
    assert.equal(await store.load(KEY), null);
    assert.equal(await store.load(AGENT), null);
    await store.append(KEY, entries(1));
    assert.equal(await store.load(AGENT), null);
    assert.equal(await store.load({ ...KEY, sessionId: "other" }), null);
  });

  test("3: appends follow each other in the order of their calls", async () => {
    await store.append(KEY, [entry(1), entry(2)]);
    await store.append(KEY, [entry(3)]);
    assert.deepEqual(await store.load(KEY), [entry(1), entry(2), entry(3)]);
  });

  test("4: to append nothing does nothing", async () => {
    await store.append(KEY, []);
    assert.equal(await store.load(KEY), null);
    assert.deepEqual(await store.listSessions(KEY.projectKey), []);
  });

  test("5: a subagent has a transcript of its own", async () => {
    await store.append(KEY, [entry(1)]);
    await store.append(AGENT, [entry(1), entry(2)]);
    assert.deepEqual(await store.load(KEY), [entry(1)]);
    assert.deepEqual(await store.load(AGENT), [entry(1), entry(2)]);
  });

  test("6: projects do not see each other", async () => {
    const other = { ...KEY, projectKey: "other" };
    await store.append(KEY, [entry(1)]);
    await store.append(other, [entry(2)]);
    assert.deepEqual(await store.load(KEY), [entry(1)]);
    assert.deepEqual(await store.load(other), [entry(2)]);
    assert.equal((await store.listSessions("other")).length, 1);
  });

  test("7: sessions of a project are listed, with times in milliseconds", async () => {
    const before = Date.now();
    await store.append(KEY, [entry(1)]);
    await store.append({ ...KEY, sessionId: "second" }, [entry(1)]);
    const listed = await store.listSessions(KEY.projectKey);
    assert.deepEqual(listed.map((one) => one.sessionId).sort(), [KEY.sessionId, "second"].sort());
    for (const { mtime } of listed) {
      assert.ok(Number.isInteger(mtime) && mtime >= before && mtime <= Date.now() + 1000, mtime);
    }
    assert.deepEqual(await store.listSessions("nothing"), []);
  });

  test("8: a session that only has subagents is not listed", async () => {
    await store.append(AGENT, [entry(1)]);
    assert.deepEqual(await store.listSessions(KEY.projectKey), []);
    assert.deepEqual(await store.listSessionSummaries(KEY.projectKey), []);
  });

  test("9: summaries are those of the SDK, folded append by append", async () => {
    const said = [[entry(1)], [{ type: "custom-title", customTitle: "A title", sessionId: KEY.sessionId }], [entry(2)]];
    let expected;
    for (const batch of said) {
      await store.append(KEY, batch);
      expected = foldSessionSummary(expected, KEY, batch);
    }
    await store.append(AGENT, [entry(9)]);
    const [summary, ...others] = await store.listSessionSummaries(KEY.projectKey);
    assert.deepEqual([summary.sessionId, summary.data, others], [KEY.sessionId, expected.data, []]);
    const [{ mtime }] = await store.listSessions(KEY.projectKey);
    assert.ok(summary.mtime >= mtime);
  });

  test("10: a session that is deleted is gone, with its subagents, and no other", async () => {
    const other = { ...KEY, sessionId: "other" };
    for (const key of [KEY, AGENT, other]) await store.append(key, [entry(1)]);
    await store.delete(KEY);
    assert.deepEqual([await store.load(KEY), await store.load(AGENT)], [null, null]);
    assert.deepEqual(await store.listSubkeys(KEY), []);
    assert.deepEqual(await store.load(other), [entry(1)]);
    await store.delete(KEY);
  });

  test("11: a subagent that is deleted leaves the rest", async () => {
    const second = { ...KEY, subpath: "subagents/agent-2" };
    for (const key of [KEY, AGENT, second]) await store.append(key, [entry(1)]);
    await store.delete(AGENT);
    assert.equal(await store.load(AGENT), null);
    assert.deepEqual([await store.load(KEY), await store.load(second)], [[entry(1)], [entry(1)]]);
    assert.deepEqual(await store.listSubkeys(KEY), ["subagents/agent-2"]);
  });

  test("12: subagents of a session are listed", async () => {
    const subpaths = ["subagents/agent-1", "subagents/workflows/a b/agent-2", "ü"];
    for (const subpath of subpaths) await store.append({ ...KEY, subpath }, [entry(1)]);
    await store.append({ ...KEY, sessionId: "other", subpath: "subagents/x" }, [entry(1)]);
    assert.deepEqual((await store.listSubkeys(KEY)).sort(), [...subpaths].sort());
  });

  test("13: the main transcript is no subagent", async () => {
    await store.append(KEY, [entry(1)]);
    assert.deepEqual(await store.listSubkeys(KEY), []);
    assert.deepEqual(await store.listSubkeys({ ...KEY, sessionId: "never was" }), []);
  });
});

test("an entry comes once however often its batch is sent", async () => {
  const title = { type: "title", title: "a" };
  await store.append(KEY, [entry(1), entry(1), title]);
  await store.append(KEY, [entry(1), entry(2, "assistant"), title]);
  assert.deepEqual(await store.load(KEY), [entry(1), title, entry(2, "assistant"), title]);
  await store.append(AGENT, [entry(1)]);
  await store.delete(AGENT);
  await store.append(AGENT, [entry(1)]);
  assert.deepEqual(await store.load(AGENT), [entry(1)], "a transcript forgets its entries with itself");
});

test("calls at once keep their order, and take what they were given", async () => {
  const given = entries(50);
  const appended = given.map((one) => store.append(KEY, [one]));
  for (const one of given) one.type = "changed";
  await Promise.all(appended);
  assert.deepEqual(await store.load(KEY), entries(50));
});

test("several stores on one session lose nothing", async () => {
  const write = async (writer) => {
    const own = await TurntreeSessionStore.open(path);
    for (let number = 0; number < 10; number += 1) {
      await own.append(KEY, [entry(number, "user", { writer }), entry(100 * writer + number + 100)]);
    }
    await own.close();
  };
  await Promise.all([0, 1, 2].map(write));
  const uuids = (await store.load(KEY)).map((one) => one.uuid);
  assert.equal(uuids.length, 40);
  assert.equal(new Set(uuids).size, 40);
});

test("a transcript is a session whose messages are messages", async () => {
  await store.append(KEY, [entry(1), { type: "summary", summary: "x" }]);
  await store.append(KEY, [entry(2, "assistant")]);
  await store.append({ ...KEY, subpath: "subagents/a1" }, [entry(3)]);
  const read = await Store.open(path, { create: false });
  const [session] = await read.sessions();
  const snapshot = await read.snapshot(session);
  assert.deepEqual((await snapshot.messages()).map((one) => one.role), ["user", "assistant"]);
  assert.deepEqual(await snapshot.agents(), ["a1@main", "main"]);
  assert.equal(snapshot.turn, 3);
  await read.close();
});

test("any text and any key comes back, and what JSON has not is an error", async () => {
  const odd = ["\0", "\ud800", "é\n", "a".repeat(100_000)].map((text) => ({ type: "x", text }));
  const keys = ["", "a/b", "a+b", "-x.lock", "é ü"].flatMap((projectKey) =>
    ["..", "@", "~1:2^"].map((sessionId) => ({ projectKey, sessionId })),
  );
  for (const [number, key] of keys.entries()) await store.append(key, [{ type: "n", number }, ...odd]);
  for (const [number, key] of keys.entries()) {
    assert.deepEqual(await store.load(key), [{ type: "n", number }, ...odd]);
  }
  assert.equal((await store.listSessions("a/b")).length, 3);
  await assert.rejects(store.append(KEY, [{ type: "x", value: 3n }]), TypeError);
  await assert.rejects(store.append({ ...KEY, subpath: "" }, [entry(1)]), InvalidInput);
  assert.equal(await store.load(KEY), null);
  await store.close();
  await assert.rejects(store.load(KEY), InvalidInput);
});

// The OpenAI Agents SDK: the answers of `MemorySession` to the same calls, and what a store adds.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Agent, MemorySession, Runner, Usage, setTracingDisabled, tool } from "@openai/agents-core";
import { InvalidInput, Store } from "turntree";
import { TurntreeSession } from "turntree/openai-agents";
import { newPlace } from "./place.mjs";

const said = (number, role = "user") => ({ type: "message", role, content: `message ${number} ü😀` });
const call = (callId, name) => ({ type: "function_call", callId, name, arguments: "{}", status: "completed" });
const image = { role: "user", content: [{ type: "input_image", image: "https://x.example/1.png", providerData: { bytes: new Uint8Array([0, 255, 7]) } }] };

/** Numbers from a seed (mulberry32). */
function random(seed) {
  return (limit) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}

/** A session that is closed at the end of its test. */
async function opened(t, path, id) {
  const session = await TurntreeSession.open(path, id);
  t.after(() => session.close());
  return session;
}

/** The result of a call, or that it failed. */
async function outcome(work) {
  try {
    return { result: await work() };
  } catch {
    return { failed: true };
  }
}

/** A call with random arguments, for both sessions. `items` are the stored ones. */
function anyCall(draw, number, items) {
  const one = (at) => [said(number * 10 + at), call(`c${draw(3)}`, `f${number}`), image][draw(3)];
  const some = () => Array.from({ length: draw(4) }, (_, at) => one(at));
  const transact = (operationId, transaction) => (session) => session.applyHistoryTransaction({ operationId, transaction });
  const calls = [
    () => {
      const added = some();
      return (session) => session.addItems(added);
    },
    () => (session) => session.popItem(),
    () => {
      const limit = draw(6) - 1;
      return (session) => session.getItems(limit);
    },
    () => {
      const mutations = [{ type: "replace_function_call", callId: `c${draw(3)}`, replacement: call(`c${draw(3)}`, "new") }];
      return (session) => session.applyHistoryMutations({ mutations });
    },
    () => transact(`append ${draw(6)}`, { type: "append_items", items: draw(2) ? [said(draw(2))] : some() }),
    () => {
      const stored = items.slice(Math.max(0, items.length - draw(3)));
      const expectedSuffix = draw(4) ? stored : [said(-1)];
      return transact(`replace ${number}`, { type: "replace_suffix", expectedSuffix, replacement: some() });
    },
    () => (draw(6) ? (session) => session.getItems() : (session) => session.clearSession()),
  ];
  // Items are added as often as they are removed.
  return (calls[draw(calls.length + 1)] ?? calls[0])();
}

for (const seed of [1, 2, 3]) {
  test(`300 random calls have the answers of MemorySession, seed ${seed}`, async () => {
    const draw = random(seed);
    const path = newPlace();
    const theirs = new MemorySession({ sessionId: "a" });
    let ours = await TurntreeSession.open(path, "user@x.org:1/ä");
    for (let number = 0; number < 300; number += 1) {
      const made = anyCall(draw, number, await theirs.getItems());
      assert.deepEqual(await outcome(() => made(ours)), await outcome(() => made(theirs)), `call ${number}: ${made}`);
      assert.deepEqual(await ours.getItems(), await theirs.getItems(), `call ${number}: ${made}`);
      if (draw(50) === 0) {
        await ours.close();
        ours = await TurntreeSession.open(path, "user@x.org:1/ä");
      }
    }
    await ours.close();
  });
}

test("an object that looks like bytes returns as it was", async (t) => {
  const session = await opened(t, newPlace(), "a");
  const odd = [{ $bytes: "AAAA" }, { $$bytes: { $bytes: new Uint8Array([1]) } }, { $bytes: "a", b: 1 }, { $bytes: 1 }];
  const items = odd.map((providerData, at) => ({ ...said(at), providerData }));
  await session.addItems(items);
  assert.deepEqual(await session.getItems(), items);
});

test("items are messages of a session, and a batch is undone as one", async (t) => {
  const store = await Store.open(newPlace());
  t.after(() => store.close());
  const session = new TurntreeSession(store, "customer 7");
  await session.addItems([said(1), call("c1", "f"), { type: "function_call_result", callId: "c1", name: "f", status: "completed", output: "done" }]);
  const [name] = await store.sessions();
  const messages = await (await store.snapshot(name)).messages();
  assert.deepEqual(messages.map((message) => message.role), ["user", "assistant", "tool"]);
  await session.addItems([said(2), said(3)]);
  await store.undo();
  assert.equal((await session.getItems()).length, 3);
  await session.close();
  assert.equal(store.closed, false, "a store that was passed in stays open");
});

test("writers of one session lose no item", async (t) => {
  const store = await Store.open(newPlace());
  t.after(() => store.close());
  const sessions = [1, 2, 3, 4].map(() => new TurntreeSession(store, "a"));
  const applied = (session, at) => session.applyHistoryTransaction({ operationId: `${at}`, transaction: { type: "append_items", items: [said(at)] } });
  const calls = sessions.flatMap((session, at) => [0, 1, 2].flatMap((number) => [session.addItems([said(at * 3 + number)]), applied(session, 100 + number)]));
  await Promise.all(calls);
  const texts = (await sessions[0].getItems()).map((item) => item.content).sort();
  const expected = [...Array(12).keys(), 100, 101, 102].map((number) => said(number).content).sort();
  assert.deepEqual(texts, expected, "each item once, and each transaction once");
});

describe("branches", () => {
  test("begin before a turn, and are switched, listed and deleted", async (t) => {
    const session = await opened(t, newPlace(), "a");
    for (const number of [1, 2, 3]) await session.addItems([said(number), said(number + 100, "assistant")]);
    assert.equal(await session.createBranchFromTurn(2), "turn-2");
    await session.addItems([said(9)]);
    assert.deepEqual(await session.getItems(), [said(1), said(101, "assistant"), said(9)]);
    assert.equal(await session.createBranchFromTurn(1, "odd name/ü"), "odd name/ü");
    assert.deepEqual(await session.getItems(), []);
    const listed = (await session.listBranches()).map((branch) => [branch.branchId, branch.itemCount, branch.userTurns, branch.isCurrent]);
    assert.deepEqual(listed.sort(), [["main", 6, 3, false], ["odd name/ü", 0, 0, true], ["turn-2", 3, 2, false]]);
    await session.switchToBranch("main");
    assert.equal((await session.getItems()).length, 6);
    await assert.rejects(session.createBranchFromTurn(2, "turn-2"), InvalidInput);
    await assert.rejects(session.createBranchFromTurn(4), InvalidInput);
    await assert.rejects(session.switchToBranch("nowhere"), InvalidInput);
    await assert.rejects(session.deleteBranch("main"), InvalidInput);
    await session.switchToBranch("turn-2");
    await assert.rejects(session.deleteBranch("turn-2"), InvalidInput);
    await session.deleteBranch("turn-2", { force: true });
    assert.equal(session.branchId, "main");
    assert.equal((await session.listBranches()).length, 2);
  });
});

test("a runner of the SDK continues a session after a restart", async (t) => {
  setTracingDisabled(true);
  const path = newPlace();
  const seen = [];
  const model = {
    async getResponse(request) {
      seen.push(request.input.length);
      const last = request.input.at(-1);
      const output = last.type === "function_call_result"
        ? [{ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: "It is 7." }] }]
        : [call(`call-${seen.length}`, "measure")];
      return { usage: new Usage(), output, responseId: `r${seen.length}` };
    },
    getStreamedResponse() {
      throw new Error("not used");
    },
  };
  const measure = tool({ name: "measure", description: "Measures.", parameters: { type: "object", properties: {}, required: [], additionalProperties: false }, strict: true, execute: async () => "7" });
  const agent = new Agent({ name: "A", model, tools: [measure] });
  for (let turn = 0; turn < 3; turn += 1) {
    const session = await opened(t, path, "run");
    const result = await new Runner().run(agent, `question ${turn}`, { session });
    assert.equal(result.finalOutput, "It is 7.");
    assert.equal((await session.getItems()).length, (turn + 1) * 4);
  }
  assert.deepEqual(seen, [1, 3, 5, 7, 9, 11]);
});

// The Vercel AI SDK: chats come back, and saving stores what is new.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Store } from "turntree";
import { loadChat, saveChat } from "turntree/ai";

const said = (number, role = "user") => ({
  id: `m${number}`,
  role,
  parts: [{ type: "text", text: `message ${number} ü` }],
});

test("a chat comes back as it was saved, and grows by what is new", async (t) => {
  const root = mkdtempSync(join(tmpdir(), "turntree-"));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const store = await Store.open(join(root, "store"));
  assert.deepEqual(await loadChat(store, "chat/1"), []);
  let messages = [];
  for (let number = 0; number < 10; number += 1) {
    messages = [...messages, said(number), said(number + 100, "assistant")];
    await saveChat(store, { chatId: "chat/1", messages });
    await saveChat(store, { chatId: "chat/1", messages });
  }
  assert.deepEqual(await loadChat(store, "chat/1"), messages);
  const snapshot = await store.snapshot((await store.sessions())[0]);
  assert.equal(snapshot.turn, 10, "what is saved again is no turn");
  assert.deepEqual((await snapshot.messages())[1].role, "assistant");
  // A message that is generated anew takes the place of the one before.
  const edited = [...messages.slice(0, 19), said(999, "assistant")];
  await saveChat(store, { chatId: "chat/1", messages: edited });
  assert.deepEqual(await loadChat(store, "chat/1"), edited);
  await saveChat(store, { chatId: "chat/1", messages: [] });
  assert.deepEqual(await loadChat(store, "chat/1"), []);
  const both = [said(1), said(2)].map((message) => saveChat(store, { chatId: "two", messages: [message] }));
  await Promise.all(both);
  assert.equal((await loadChat(store, "two")).length, 1);
  await store.close();
});

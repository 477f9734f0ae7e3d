/**
 * The Vercel AI SDK on turntree: `loadChat` and `saveChat`, which its guide leaves to you.
 *
 * A chat is a session, and each message an entry of its conversation: saving stores what is new.
 */

import { Conflict, type Store } from "turntree";
import { fromJson, toJson } from "./json.js";
import { sessionName } from "./names.js";

const CONVERSATION = "agents/main/messages";
const FORMAT = "ai-sdk";

/** What every `UIMessage` of the SDK has. */
export interface ChatMessage {
  id: string;
  role: "system" | "user" | "assistant";
  parts: unknown[];
}

/** The messages of a chat; none of a chat that never was. */
export async function loadChat<M extends ChatMessage>(store: Store, id: string): Promise<M[]> {
  const snapshot = await store.newest(sessionName(id));
  return ((await snapshot?.messages()) ?? []).map(({ record }) => fromJson(record) as M);
}

/** Makes these the messages of a chat. The ones that it begins with already are not stored again. */
export async function saveChat<M extends ChatMessage>(
  store: Store,
  { chatId, messages }: { chatId: string; messages: readonly M[] },
): Promise<void> {
  const name = sessionName(chatId);
  const records = messages.map(toJson);
  for (;;) {
    const snapshot = await store.newest(name);
    const stored = (await snapshot?.messages()) ?? [];
    const changed = stored.findIndex(({ record }, at) => !records[at]?.equals(record));
    const same = changed < 0 ? stored.length : changed;
    const change = store.begin(name, `${messages.length} messages`, { expect: snapshot?.id ?? null });
    if (same < stored.length) change.cut(CONVERSATION, same);
    records.slice(same).forEach((record, at) => {
      change.pushMessage(messages[same + at]?.role ?? "other", record, { format: FORMAT });
    });
    try {
      await change.commit();
      return;
    } catch (error) {
      if (!(error instanceof Conflict)) throw error; // Another writer was faster: compared again.
    }
  }
}

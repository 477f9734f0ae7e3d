// What TypeScript knows of the package: compiled, never run.

import type { SessionStore } from "@anthropic-ai/claude-agent-sdk";
import { MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver, BaseStore } from "@langchain/langgraph-checkpoint";
import { type Message, type PathChange, Snapshot, Store, Transaction, TurntreeError } from "turntree";
import type { Session } from "@openai/agents-core";
import { loadChat, saveChat } from "turntree/ai";
import { TurntreeSessionStore } from "turntree/claude";
import { unwrap } from "turntree/keys";
import { TurntreeSaver, TurntreeStore } from "turntree/langgraph";
import { type SessionBranch, TurntreeSession } from "turntree/openai-agents";

export async function primitives(): Promise<void> {
  const store = await Store.open("agents.turntree", { actor: "me", create: false });
  const result: number = await store.transact("task", "", (change: Transaction) => {
    change.put("kept", "a", new Uint8Array(1));
    return 1;
  });
  const snapshot: Snapshot | null = await store.newest("task");
  const content: Buffer | null | undefined = await snapshot?.get("kept", "a");
  const changes: PathChange[] = await store.diff("task", "task~1");
  const messages: Message[] = (await snapshot?.messages()) ?? [];
  for await (const one of store.log("task")) console.log(one.turn, content, changes, messages, result);
  const key: Uint8Array = await unwrap("agents.turntree", { passphrase: "x" });
  await Store.open("agents.turntree", { key });
  store.begin("task").putFile("run.sh", content ?? new Uint8Array(), { mode: "executable" });
  // @ts-expect-error: a file has one of three modes
  store.begin("task").putFile("run.sh", new Uint8Array(), { mode: "folder" });
  // @ts-expect-error: content is bytes
  store.begin("task").put("kept", "a", "text");
  // @ts-expect-error: a store is opened
  new Store();
  // @ts-expect-error: a snapshot comes from a store
  new Snapshot();
  try {
    await store.collect({ repack: true });
  } catch (error) {
    if (error instanceof TurntreeError) console.log(error.kind satisfies string);
  }
}

export async function adapters(store: Store): Promise<void> {
  const saver = new TurntreeSaver(store);
  const stores: BaseCheckpointSaver[] = [saver];
  const memory: BaseStore = new TurntreeStore(store);
  const graph = new StateGraph(MessagesAnnotation).addNode("a", () => ({})).addEdge(START, "a");
  graph.compile({ checkpointer: saver, store: memory });
  graph.compile({ checkpointer: new MemorySaver() });
  const sessions: SessionStore = new TurntreeSessionStore(store);
  const conversation: Session = new TurntreeSession(store, "customer");
  const branches: SessionBranch[] = await new TurntreeSession(store, "customer").listBranches();
  await saveChat(store, { chatId: "c", messages: await loadChat(store, "c") });
  console.log(stores, sessions, conversation, branches);
}

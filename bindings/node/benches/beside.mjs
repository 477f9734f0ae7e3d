// What a conversation costs in the store of each framework and in turntree: prints a JSON record for each.
//
//     node benches/beside.mjs [--sizes]
//
// In target/node/project after `check`. A turn is a question of 200 bytes and an answer of 2 KB. The time is the
// median of the last 50 turns; `bytes` is null for a store in memory. With `--sizes`, as for a build without
// optimisation, times are null. The table of the README is made of it: `bindings/frameworks`.

import { InMemorySessionStore } from "@anthropic-ai/claude-agent-sdk";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { MemorySession } from "@openai/agents-core";
import { Store } from "turntree";
import { loadChat, saveChat } from "turntree/ai";
import { TurntreeSessionStore } from "turntree/claude";
import { TurntreeSaver } from "turntree/langgraph";
import { TurntreeSession } from "turntree/openai-agents";
import { bytesOf, inFolder, median, wordsOf } from "./chat-graph.mjs";

const [TURNS, LAST] = [200, 50];

async function langgraph(saver) {
  let text = "";
  const answer = () => ({ messages: [new AIMessage(text)] });
  const builder = new StateGraph(MessagesAnnotation).addNode("answer", answer).addEdge(START, "answer");
  const graph = builder.compile({ checkpointer: saver });
  const config = { configurable: { thread_id: "t" } };
  const turn = async (_, question, said) => {
    text = said;
    await graph.invoke({ messages: [new HumanMessage(question)] }, config);
  };
  return [turn, () => saver.close?.()];
}

async function claude(store) {
  const key = { projectKey: "p", sessionId: "s" };
  const entry = (at, role, content) => ({ type: role, uuid: `${at}-${role}`, message: { role, content } });
  const turn = (at, question, said) =>
    store.append(key, [entry(at, "user", question), entry(at, "assistant", said)]);
  return [turn, () => store.close?.()];
}

async function openai(session) {
  const turn = async (_, question, said) => {
    await session.addItems([{ role: "user", content: question }]);
    const content = [{ type: "output_text", text: said }];
    await session.addItems([{ role: "assistant", status: "completed", content }]);
  };
  return [turn, () => session.close?.()];
}

async function ai(store) {
  const part = (text) => [{ type: "text", text }];
  const turn = async (at, question, said) => {
    const messages = await loadChat(store, "chat");
    messages.push({ id: `${at}-user`, role: "user", parts: part(question) });
    messages.push({ id: `${at}-assistant`, role: "assistant", parts: part(said) });
    await saveChat(store, { chatId: "chat", messages });
  };
  return [turn, () => store.close()];
}

/** The frameworks: how a turn is played, our store, the name of their own, and that one. */
const FRAMEWORKS = {
  "@langchain/langgraph": [langgraph, (folder) => TurntreeSaver.open(folder), "MemorySaver", () => new MemorySaver()],
  "@anthropic-ai/claude-agent-sdk": [
    claude,
    (folder) => TurntreeSessionStore.open(folder),
    "InMemorySessionStore",
    () => new InMemorySessionStore(),
  ],
  "@openai/agents-core": [
    openai,
    (folder) => TurntreeSession.open(folder, "s"),
    "MemorySession",
    () => new MemorySession(),
  ],
  ai: [ai, (folder) => Store.open(folder), null, null],
};

const hasTimes = !process.argv.includes("--sizes");
const words = wordsOf(1);
const texts = Array.from({ length: TURNS }, () => [words(30), words(310)]);

const measured = (play, make) =>
  inFolder(async (folder) => {
    const [turn, close] = await play(await make(folder));
    const times = [];
    for (const [at, [question, said]] of texts.entries()) {
      const start = performance.now();
      await turn(at, question, said);
      times.push(performance.now() - start);
    }
    await close();
    return { bytes: bytesOf(folder) || null, ms: hasTimes ? Number(median(times.slice(-LAST)).toFixed(2)) : null };
  });

for (const [name, [play, ours, store, theirs]] of Object.entries(FRAMEWORKS)) {
  const turntree = await measured(play, ours);
  const own = theirs && (await measured(play, theirs));
  console.log(JSON.stringify({ package: name, store, turntree, own }));
}

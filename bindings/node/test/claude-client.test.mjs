// The client of the Claude Agent SDK, driven by the SDK against a model on loopback that answers from a script.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, beforeEach, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { query } from "@anthropic-ai/claude-agent-sdk";
import { Store } from "turntree";
import { TurntreeSessionStore } from "turntree/claude";

const PYTHON = process.env.TURNTREE_PYTHON ?? "python3";
// The same place from the sources and from where `check` copies the tests to.
const PLAY = join(dirname(fileURLToPath(import.meta.url)), "../../../tests/clients/play");
// Milliseconds after which a client that hangs is given up. None of it is waited for otherwise.
const PATIENCE = 240_000;

// The stand-in of the tests of real clients: a line says what the model answers next, and is answered by what
// it was told in its newest request.
const STAND_IN = `
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
import standin, wire
model = standin.StandIn(pathlib.Path(sys.argv[2]))
print(model.port, flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked is not None:
        model.play([wire.Answer(asked)])
    parts = model.requests[-1].parts if model.requests else []
    print(json.dumps([value for _, kind, value in parts if kind == "text"]), flush=True)
`;

/** The client: that of the SDK, or else the same that the SDK for Python brings. */
function findClient() {
  const sdk = createRequire(import.meta.resolve("@anthropic-ai/claude-agent-sdk"));
  try {
    return sdk.resolve(`@anthropic-ai/claude-agent-sdk-${process.platform}-${process.arch}/claude`);
  } catch {
    const where = "import claude_agent_sdk, pathlib; print(pathlib.Path(claude_agent_sdk.__file__).parent / '_bundled' / 'claude')";
    return spawnSync(PYTHON, ["-c", where], { encoding: "utf8" }).stdout?.trim() ?? "";
  }
}

const client = findClient();
const skip = !existsSync(client)
  ? "neither the SDK nor the one for Python brings a client for this platform"
  : !existsSync(join(PLAY, "standin.py"))
    ? "the stand-in for the model is in the repository"
    : spawnSync(PYTHON, ["--version"]).status !== 0 && "the stand-in for the model wants Python";

const root = realpathSync(mkdtempSync(join(tmpdir(), "turntree-")));
after(() => rmSync(root, { recursive: true, force: true, maxRetries: 5 }));

/** A model that answers from a script, and a client that nothing of this machine reaches. */
class Play {
  static async begin(folder) {
    const play = new Play();
    [play.folder, play.work, play.said] = [folder, join(folder, "work"), new Set()];
    mkdirSync(play.work, { recursive: true });
    play.model = spawn(PYTHON, ["-c", STAND_IN, PLAY, play.work], { stdio: ["pipe", "pipe", "inherit"] });
    play.lines = createInterface(play.model.stdout)[Symbol.asyncIterator]();
    play.port = (await play.lines.next()).value;
    return play;
  }

  async end() {
    this.model.stdin.end();
    await once(this.model, "exit");
  }

  async tell(line) {
    this.model.stdin.write(`${JSON.stringify(line)}\n`);
    return JSON.parse((await this.lines.next()).value);
  }

  /** Asks in a fresh place for settings. Returns the id of the session. */
  async query(sessionStore, prompt, reply, options = {}) {
    await this.tell(reply);
    this.said.add(prompt).add(reply);
    const home = join(this.folder, `home-${randomUUID()}`);
    mkdirSync(home);
    const foreign = /^(CLAUDE|ANTHROPIC)/;
    const own = Object.entries(process.env).filter(([name]) => !foreign.test(name));
    const env = {
      ...Object.fromEntries(own),
      HOME: home,
      CLAUDE_CONFIG_DIR: join(home, "config"),
      ANTHROPIC_BASE_URL: `http://127.0.0.1:${this.port}`,
      ANTHROPIC_API_KEY: "nothing-to-keep",
      NO_PROXY: "127.0.0.1",
      DISABLE_TELEMETRY: "1",
      DISABLE_AUTOUPDATER: "1",
      DISABLE_ERROR_REPORTING: "1",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    };
    const how = { sessionStore, cwd: this.work, allowedTools: ["Read"], settingSources: [], env };
    const asked = query({ prompt, options: { ...how, pathToClaudeCodeExecutable: client, ...options } });
    let session;
    for await (const message of asked) {
      if (message.type === "result") {
        assert.equal(message.result, reply, JSON.stringify(message));
        session = message.session_id;
      }
      assert.notEqual(message.subtype, "mirror_error", "the client could not keep its transcript in the store");
    }
    return session;
  }

  /** What the model was told of this in the newest request; the client adds facts and reminders. */
  async heard() {
    return (await this.tell(null)).filter((text) => this.said.has(text));
  }
}

describe("the client of the SDK", { skip, timeout: PATIENCE }, () => {
  let play;
  let path;
  let places = 0;
  beforeEach(async () => {
    const place = join(root, String((places += 1)));
    path = join(place, "store");
    play = await Play.begin(place);
  });
  afterEach(() => play.end());

  test("a session goes on where only the store knows it", async () => {
    const first = await TurntreeSessionStore.open(path);
    const session = await play.query(first, "my name is Ada", "Hello Ada");
    await first.close();

    const second = await TurntreeSessionStore.open(path);
    assert.equal(await play.query(second, "what is my name?", "Ada", { resume: session }), session);
    assert.deepEqual(await play.heard(), ["my name is Ada", "Hello Ada", "what is my name?"]);

    const forked = await play.query(second, "and backwards?", "adA", { resume: session, forkSession: true });
    assert.notEqual(forked, session);
    const whole = ["my name is Ada", "Hello Ada", "what is my name?", "Ada", "and backwards?"];
    assert.deepEqual(await play.heard(), whole);
    await second.close();

    const store = await Store.open(path, { create: false });
    const names = (await store.sessions()).filter((name) => name.includes(session));
    assert.equal(names.length, 1);
    const messages = await (await store.snapshot(names[0])).messages();
    assert.deepEqual(messages.map((one) => one.role), ["user", "assistant", "user", "assistant"]);
    await store.close();
  });

  test("a session of a thousand turns goes on", async () => {
    const store = await TurntreeSessionStore.open(path);
    const session = await play.query(store, "turn 0", "answer 0");
    const key = { projectKey: await projectOf(store.store, session), sessionId: session };
    const begun = await store.load(key);
    const newest = (kind) => begun.findLast((entry) => entry.type === kind);
    const [question, answer, leaf] = ["user", "assistant", "last-prompt"].map(newest);
    let parentUuid = leaf.leafUuid;
    const turns = [];
    for (let number = 1; number < 1000; number += 1) {
      for (const [entry, text] of [[question, `turn ${number}`], [answer, `answer ${number}`]]) {
        const content = entry === question ? text : [{ type: "text", text }];
        const uuid = randomUUID();
        // Records with one id are parts of one answer.
        const id = entry === answer ? { id: `msg_${number}` } : {};
        turns.push({ ...entry, uuid, parentUuid, message: { ...entry.message, content, ...id } });
        play.said.add(text);
        parentUuid = uuid;
      }
    }
    turns.push({ ...leaf, leafUuid: parentUuid });
    await store.append(key, turns);

    assert.deepEqual(await store.load(key), [...begun, ...turns]);
    await play.query(store, "and now?", "done", { resume: session });
    const expected = Array.from({ length: 1000 }, (_, number) => [`turn ${number}`, `answer ${number}`]).flat();
    assert.deepEqual(await play.heard(), [...expected, "and now?"]);
    await store.close();
  });
});

/** The project that the SDK keeps a session under, which stands in the name of the session before it. */
async function projectOf(store, session) {
  const name = (await store.sessions()).find((one) => one.includes(session));
  return decodeURIComponent(name.split("+").at(-2));
}

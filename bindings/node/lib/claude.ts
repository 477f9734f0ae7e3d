/**
 * The Claude Agent SDK on turntree: `TurntreeSessionStore` keeps transcripts.
 *
 * A session of the SDK is a session of the store, with its subagents, where the Python package has it too:
 *
 * - `claude-entries`, a list: the entries of the transcript; `claude-entries:<subpath>` others;
 * - `claude-uuids`, a map: `<subpath>/<uuid>` of each entry that has one;
 * - `claude-summary`, a blob: what `foldSessionSummary` made of the entries;
 * - `agents/<agent>/messages`, lists: the messages among the entries, for people.
 */

import { Conflict, InvalidInput, type Snapshot, Store, type Transaction } from "turntree";
import { fromJson, toJson } from "./json.js";
import { partsOf, quote, sessionName } from "./names.js";
import { Turns } from "./turns.js";

const ENTRIES = "claude-entries";
const UUIDS = "claude-uuids";
const SUMMARY = "claude-summary";

/** How often entries are appended again when others are faster. */
const MAX_ATTEMPTS = 1000;

/** Which transcript; `subpath` is one of a subagent. */
export interface SessionKey {
  projectKey: string;
  sessionId: string;
  subpath?: string;
}

/** A line of a transcript. */
export interface SessionStoreEntry {
  type: string;
  uuid?: string;
  timestamp?: string;
  [name: string]: unknown;
}

/** What the SDK wants to know of a session without its entries. */
export interface SessionSummaryEntry {
  sessionId: string;
  mtime: number;
  data: Record<string, unknown>;
}

/** An entry that is appended, and its bytes. */
type Fresh = [entry: SessionStoreEntry, record: Buffer];

/**
 * The `SessionStore` of the Claude Agent SDK in a turntree store. An append is durable when its promise is
 * fulfilled, and one commit. Entries whose `uuid` is there already are left out, in a batch too. Processes
 * may use one store at once.
 */
export class TurntreeSessionStore implements AsyncDisposable {
  readonly #turns = new Turns();
  #isOpenedHere = false;

  constructor(readonly store: Store) {}

  /** Transcripts in the store in a directory, which is made if nothing is there. */
  static async open(path: string | URL): Promise<TurntreeSessionStore> {
    const sessions = new TurntreeSessionStore(await Store.open(path, { actor: "claude" }));
    sessions.#isOpenedHere = true;
    return sessions;
  }

  /** Closes the store if `open` opened it: a store that was passed in belongs to its owner. */
  async close(): Promise<void> {
    if (this.#isOpenedHere) await this.store.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async append(key: SessionKey, entries: SessionStoreEntry[]): Promise<void> {
    check(key);
    if (entries.length === 0) return;
    // Taken now, before the caller changes them.
    const records = entries.map((entry): Fresh => {
      const record = toJson(entry);
      return [fromJson(record) as SessionStoreEntry, record];
    });
    await this.#turns.take(nameOf(key), () => this.#append(key, records));
  }

  async load(key: SessionKey): Promise<SessionStoreEntry[] | null> {
    check(key);
    const snapshot = await this.store.newest(nameOf(key));
    const entries = snapshot ? await recordsOf(snapshot, sectionOf(key.subpath)) : [];
    return entries.length > 0 ? entries.map((entry) => fromJson(entry) as SessionStoreEntry) : null;
  }

  async listSessions(projectKey: string): Promise<{ sessionId: string; mtime: number }[]> {
    const found = await this.#sessions(projectKey);
    return found.map(([sessionId, snapshot]) => ({ sessionId, mtime: mtimeOf(snapshot) }));
  }

  async listSessionSummaries(projectKey: string): Promise<SessionSummaryEntry[]> {
    const found = await this.#sessions(projectKey);
    const summaries = found.map(([sessionId, snapshot]) => summaryOf(snapshot, sessionId));
    return (await Promise.all(summaries)).filter((summary) => summary !== undefined);
  }

  async delete(key: SessionKey): Promise<void> {
    check(key);
    await this.#turns.take(nameOf(key), () => this.#delete(key));
  }

  async listSubkeys(key: { projectKey: string; sessionId: string }): Promise<string[]> {
    const snapshot = await this.store.newest(nameOf(key));
    if (!snapshot) return [];
    const start = `${ENTRIES}:`;
    const names = Object.keys(await snapshot.sections()).filter((name) => name.startsWith(start));
    return names.map((name) => partsOf(name.slice(start.length))[0]);
  }

  async #append(key: SessionKey, records: Fresh[]): Promise<void> {
    // Imported when it is needed: the SDK is a module that `require` does not load everywhere.
    const { foldSessionSummary } = await import("@anthropic-ai/claude-agent-sdk");
    const name = nameOf(key);
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      const snapshot = await this.store.newest(name);
      const fresh = await freshOf(snapshot, key.subpath, records);
      if (fresh.length === 0) return;
      const title = titleOf(fresh, key.subpath);
      const change = this.store.begin(name, title, { expect: snapshot?.id ?? null });
      push(change, key.subpath, fresh);
      if (key.subpath === undefined) {
        const previous = snapshot ? await summaryOf(snapshot, key.sessionId) : undefined;
        const folded = foldSessionSummary(previous, key, fresh.map(([entry]) => entry));
        change.setBlob(SUMMARY, toJson(folded.data));
      }
      try {
        await change.commit();
        return;
      } catch (error) {
        if (!(error instanceof Conflict)) throw error;
      }
    }
    throw new Conflict(`others are always faster on ${name}`);
  }

  async #delete(key: SessionKey): Promise<void> {
    const [name, { subpath }] = [nameOf(key), key];
    if (subpath === undefined) {
      await this.store.delete(name);
      return;
    }
    const snapshot = await this.store.newest(name);
    if (!snapshot || (await snapshot.count(sectionOf(subpath))) === 0) return;
    const uuids = await snapshot.keys(UUIDS, uuidKey(subpath, ""));
    await this.store.transact(name, `delete ${subpath}`, (change) => {
      change.dropSection(sectionOf(subpath));
      change.dropSection(`agents/${agentOf(subpath)}/messages`);
      for (const uuid of uuids) change.remove(UUIDS, uuid);
    });
  }

  /** The sessions of a project that have a transcript of their own. */
  async #sessions(project: string): Promise<[session: string, Snapshot][]> {
    const found: [string, Snapshot][] = [];
    for (const name of await this.store.sessions()) {
      const [kind, of, session, ...others] = partsOf(name);
      if (kind !== "claude" || of !== project || session === undefined || others.length > 0) continue;
      const snapshot = await this.store.newest(name);
      if (snapshot && (await snapshot.count(ENTRIES)) > 0) found.push([session, snapshot]);
    }
    return found;
  }
}

function check(key: SessionKey): void {
  if (key.subpath === "") throw new InvalidInput("the subpath is empty: the main transcript has none");
}

function nameOf(key: { projectKey: string; sessionId: string }): string {
  return sessionName("claude", key.projectKey, key.sessionId);
}

function sectionOf(subpath: string | undefined): string {
  return subpath === undefined ? ENTRIES : `${ENTRIES}:${quote(subpath)}`;
}

function uuidKey(subpath: string | undefined, uuid: string): string {
  return `${quote(subpath ?? "")}/${quote(uuid)}`;
}

/** The agent whose conversation a transcript is. */
function agentOf(subpath: string | undefined): string {
  return subpath === undefined ? "main" : `${quote(subpath.replace(/^subagents\//, ""))}@main`;
}

function mtimeOf(snapshot: Snapshot): number {
  return Math.floor(snapshot.timeMicros / 1000);
}

async function recordsOf(snapshot: Snapshot, section: string): Promise<Buffer[]> {
  return (await snapshot.count(section)) > 0 ? snapshot.list(section) : [];
}

async function summaryOf(snapshot: Snapshot, sessionId: string): Promise<SessionSummaryEntry | undefined> {
  if ((await snapshot.count(SUMMARY)) === 0) return undefined;
  const data = fromJson(await snapshot.read(SUMMARY)) as Record<string, unknown>;
  return { sessionId, mtime: mtimeOf(snapshot), data };
}

/** The entries that are not there yet. */
async function freshOf(
  snapshot: Snapshot | null,
  subpath: string | undefined,
  records: Fresh[],
): Promise<Fresh[]> {
  const fresh: Fresh[] = [];
  const seen = new Set<string>();
  for (const [entry, record] of records) {
    if (entry.uuid != null) {
      const uuid = String(entry.uuid);
      const isKnown = snapshot && (await snapshot.get(UUIDS, uuidKey(subpath, uuid))) !== null;
      if (isKnown || seen.has(uuid)) continue;
      seen.add(uuid);
    }
    fresh.push([entry, record]);
  }
  return fresh;
}

function push(change: Transaction, subpath: string | undefined, fresh: Fresh[]): void {
  for (const [entry, record] of fresh) {
    change.push(sectionOf(subpath), record);
    if (entry.uuid != null) change.put(UUIDS, uuidKey(subpath, String(entry.uuid)), Buffer.alloc(0));
    const message = entry["message"];
    if ((entry.type === "user" || entry.type === "assistant") && isObject(message)) {
      const role = String(message["role"] ?? entry.type);
      change.pushMessage(role, record, { agent: agentOf(subpath), format: "claude-code" });
    }
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function titleOf(fresh: Fresh[], subpath: string | undefined): string {
  const kinds = [...new Set(fresh.map(([entry]) => String(entry.type).toWellFormed()))].join(", ");
  return subpath === undefined ? kinds : `${subpath}: ${kinds}`;
}

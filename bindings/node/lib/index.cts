/**
 * A content-addressed, versioned store for agent sessions: git for what an agent knows.
 *
 * A store holds sessions. A session has branches, and a branch is a chain of snapshots, each one
 * everything an agent would be given next: conversations, and maps, lists and blobs by name.
 *
 * Whatever reads, writes or hashes is a promise and runs on the thread pool. Threads and processes may use
 * one store at once.
 */

import { fileURLToPath } from "node:url";
import { bytes, count, flag, optionalBytes, optionalCount, optionalText, text, wrong } from "./arguments.cjs";
import {
  type NativeNamed,
  type NativeSnapshot,
  type NativeStore,
  type NativeTransaction,
  later,
  native,
  now,
} from "./native.cjs";

export {
  Ambiguous,
  Conflict,
  Corrupt,
  Encrypted,
  Expired,
  InvalidInput,
  LimitExceeded,
  Locked,
  NotFound,
  Redacted,
  StoreIOError,
  TurntreeError,
  Unsupported,
} from "./errors.cjs";

/** The version of the package. */
export const version: string = native.version();

/** Snapshots that a walk through history reads at once. */
const LOG_PAGE = 64;

const natives = new WeakMap<Snapshot, NativeSnapshot>();

/** How a store is opened. */
export interface StoreOptions {
  /** Who is named as the author of snapshots; `node` by default. */
  actor?: string;
  /** Whether a store is made where none is; true by default. */
  create?: boolean;
  /**
   * Whether what the journal has too much of is packed now and then, on a thread of its own, and when the
   * store is closed; true by default.
   */
  maintain?: boolean;
  /** The key of an encrypted store, as `unwrap` of `turntree/keys` finds it; `Encrypted` without it. */
  key?: Uint8Array | undefined;
}

/** How a change is held to what was read. */
export interface ExpectOptions {
  /**
   * The id of the newest snapshot that the branch must have when the change is committed, or null for a
   * branch that is not there; `Conflict` otherwise. Without it, the change goes on top of whatever is
   * newest then.
   */
  expect?: string | null | undefined;
}

/** Which entries of a map section are read. */
export interface ScanOptions {
  /** The key that they come after in that direction; it need not be there. */
  after?: string | undefined;
  /** From the last key to the first. */
  reverse?: boolean;
  /** How many at most. */
  limit?: number | undefined;
}

/** A message of a conversation. */
export interface Message {
  /** `system`, `user`, `assistant`, `tool` or `other`. */
  role: string;
  /** The format of the record. */
  format: string;
  /** The branch that a merge took it from; null for a message of the branch itself. */
  origin: string | null;
  /** The record, byte for byte. */
  record: Buffer;
}

/** What a file of the workspace is. */
export type FileMode = "regular" | "executable" | "link";

/** The path of an entry that changed, and how. */
export type PathChange = [path: string, kind: "added" | "removed" | "changed"];

/** The outcome of a merge. */
export interface MergeOutcome {
  /** The newest snapshot of the branch now. */
  id: string;
  kind: "up-to-date" | "fast-forward" | "merged";
  /** Paths that both changed to something else; all versions are in the section `conflicts`. */
  conflicts: string[];
}

/** What a session keeps: the newest turns, those of the last seconds, as many as fit into so many bytes. */
export interface Retention {
  turns?: number;
  seconds?: number;
  budgetBytes?: number;
}

/** What a collection did. */
export interface CollectReport {
  expiredTurns: number;
  freedObjects: number;
  freedBytes: number;
  writtenBytes: number;
}

/** The store in a directory. After {@link Store.close} every call but {@link Store.path} is `InvalidInput`. */
export class Store implements AsyncDisposable {
  readonly #native: NativeStore;

  private constructor(store: NativeStore) {
    this.#native = store;
  }

  /** @internal */
  static of(store: NativeStore): Store {
    return new Store(store);
  }

  /** Opens the store in a directory, which is made if nothing is there. */
  static async open(path: string | URL, options: StoreOptions = {}): Promise<Store> {
    const folder = text("path", path instanceof URL ? fileURLToPath(path) : path);
    const actor = text("actor", options.actor ?? "node");
    const create = flag("create", options.create ?? true);
    const maintain = flag("maintain", options.maintain ?? true);
    const key = optionalBytes("key", options.key);
    return Store.of(await later(async () => native.Store.open(folder, actor, create, maintain, key)));
  }

  /** The directory. */
  get path(): string {
    return this.#native.path;
  }

  /** Whether it was closed. */
  get closed(): boolean {
    return this.#native.closed;
  }

  /**
   * Closes the store. Everything that was committed is durable already. With `maintain`, a journal of 4 MiB
   * and more is packed now, which takes some tenths of a second.
   */
  async close(): Promise<void> {
    await later(() => this.#native.close());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** The sessions that have a snapshot, in order of names. */
  sessions(): Promise<string[]> {
    return later(() => this.#native.sessions());
  }

  /** The branches of a session or of all, as `session/branch`, in order of names. */
  branches(session?: string): Promise<string[]> {
    return later(async () => this.#native.branches(optionalText("session", session)));
  }

  /** The id of the newest snapshot of a branch; null when it is not there. A session alone means its branch `main`. */
  tip(branch: string): Promise<string | null> {
    return later(async () => this.#native.tip(text("branch", branch)));
  }

  /** The newest snapshot of a branch; null when it is not there. */
  async newest(branch: string): Promise<Snapshot | null> {
    const found = await later(async () => this.#native.newest(text("branch", branch)));
    return found && Snapshot.of(found);
  }

  /** The snapshot at a revision, such as `task`, `task/plan-b`, `task~1` or an id. */
  async snapshot(revision: string): Promise<Snapshot> {
    return Snapshot.of(await later(async () => this.#native.snapshot(text("revision", revision))));
  }

  /** Begins a change of a branch, which waits in memory until {@link Transaction.commit}. */
  begin(branch: string, message = "", options: ExpectOptions = {}): Transaction {
    const change = now(() => this.#native.begin(text("branch", branch), text("message", message)));
    return expecting(Transaction.of(change), change, options);
  }

  /**
   * Commits what `fill` does to a change of a branch; what it throws drops the change. Returns what `fill`
   * returns.
   */
  async transact<T>(
    branch: string,
    message: string,
    fill: (change: Transaction) => T | Promise<T>,
    options: ExpectOptions = {},
  ): Promise<T> {
    const change = this.begin(branch, message, options);
    try {
      const result = await fill(change);
      await change.commit();
      return result;
    } finally {
      change.rollback();
    }
  }

  /** Begins a branch, of any session, at a snapshot. Copies nothing. Returns the id. */
  fork(branch: string, revision: string): Promise<string> {
    return later(async () => this.#native.fork(text("branch", branch), text("revision", revision)));
  }

  /** The snapshots from a revision back, newest first, read as they are asked for. Those that expired are passed over. */
  async *log(revision: string): AsyncGenerator<Snapshot, void, undefined> {
    let next: string | null = text("revision", revision);
    while (next !== null) {
      const from: string = next;
      const page = await later(() => this.#native.logPage(from, LOG_PAGE));
      for (const found of page.snapshots) yield Snapshot.of(found);
      next = page.next;
    }
  }

  /** What changed between two revisions. */
  async diff(old: string, current: string): Promise<PathChange[]> {
    const found = await later(async () => this.#native.diff(text("old", old), text("current", current)));
    return found.map(({ path, kind }) => [path, kind]);
  }

  /** Merges the newest snapshot of one branch into another one. */
  merge(into: string, theirs: string): Promise<MergeOutcome> {
    return later(async () => this.#native.merge(text("into", into), text("theirs", theirs)));
  }

  /** Takes back the newest operation of this store's actor. Returns what it was. */
  undo(): Promise<string | null> {
    return later(async () => this.#native.undo());
  }

  /** Repeats the newest operation that was undone. Returns what it was. */
  redo(): Promise<string | null> {
    return later(async () => this.#native.redo());
  }

  /**
   * Deletes a session with all of its branches. Returns whether it was there. An undo brings it back until
   * a collection has let it go.
   */
  delete(session: string): Promise<boolean> {
    return later(async () => this.#native.delete(text("session", session)));
  }

  /**
   * Sets what a session keeps, or, for null, every session without rules of its own. Without a rule it keeps
   * all again. Takes effect with collections.
   */
  retain(session: string | null, rules: Retention = {}): Promise<void> {
    return later(async () => {
      const { seconds } = rules;
      if (seconds !== undefined && typeof seconds !== "number") throw wrong("seconds", "a number", seconds);
      const turns = optionalCount("turns", rules.turns);
      const budget = optionalCount("budgetBytes", rules.budgetBytes);
      await this.#native.retain(optionalText("session", session), turns, seconds, budget);
    });
  }

  /**
   * Applies retention and frees what nothing leads to; with `repack`, also compresses everything anew.
   * Others read and write meanwhile.
   */
  collect(options: { repack?: boolean } = {}): Promise<CollectReport> {
    return later(async () => this.#native.collect(flag("repack", options.repack ?? false)));
  }
}

/** What an agent knew at a turn. */
export class Snapshot {
  readonly #native: NativeSnapshot;

  private constructor(snapshot: NativeSnapshot) {
    this.#native = snapshot;
    natives.set(this, snapshot);
  }

  /** @internal */
  static of(snapshot: NativeSnapshot): Snapshot {
    return new Snapshot(snapshot);
  }

  /** The id of its commit: 64 hex digits. */
  get id(): string {
    return this.#native.id;
  }

  /** The number of its turn, from 1. */
  get turn(): number {
    return this.#native.turn;
  }

  get title(): string {
    return this.#native.title;
  }

  /** The session that it was made in. */
  get session(): string {
    return this.#native.session;
  }

  /** The ids of the snapshots that it goes on from. */
  get parents(): string[] {
    return this.#native.parents;
  }

  /** When it was made, in microseconds since 1970, UTC. */
  get timeMicros(): number {
    return this.#native.timeMicros;
  }

  /** The agent that made it. */
  get author(): string {
    return this.#native.author;
  }

  /** Facts that were recorded about it. */
  get metadata(): Record<string, string> {
    return named(this.#native.metadata);
  }

  /** Its sections by name, with their shapes. */
  async sections(): Promise<Record<string, "blob" | "list" | "map">> {
    return named(await later(() => this.#native.sections()));
  }

  /** How many entries or records a section has; 0 when it is not there. */
  count(section: string): Promise<number> {
    return later(async () => this.#native.count(text("section", section)));
  }

  /** An entry of a map section; null when it is not there. */
  get(section: string, key: string): Promise<Buffer | null> {
    return later(async () => this.#native.get(text("section", section), text("key", key)));
  }

  /** The entry or blob at a path, such as `scratchpad/plan`; `NotFound` when it is not there. */
  read(path: string): Promise<Buffer> {
    return later(async () => this.#native.read(text("path", path)));
  }

  /** Entries of a map section in order of keys, or the other way round. Costs what is returned. */
  async scan(section: string, prefix = "", options: ScanOptions = {}): Promise<[string, Buffer][]> {
    const found = await later(async () => this.#native.scan(...scanned(section, prefix, options)));
    return found.map(({ key, content }) => [key, content]);
  }

  /** The keys that {@link Snapshot.scan} finds. */
  keys(section: string, prefix = "", options: ScanOptions = {}): Promise<string[]> {
    return later(async () => this.#native.keys(...scanned(section, prefix, options)));
  }

  /** The records of a list section at these places, as far as there are any. */
  list(section: string, start = 0, stop?: number): Promise<Buffer[]> {
    return later(async () => {
      const [from, to] = [count("start", start), optionalCount("stop", stop)];
      return this.#native.list(text("section", section), from, to);
    });
  }

  /** The agents that have a conversation or state. */
  agents(): Promise<string[]> {
    return later(() => this.#native.agents());
  }

  /** The conversation of an agent, oldest message first. */
  async messages(agent = "main"): Promise<Message[]> {
    const found = await later(async () => this.#native.messages(text("agent", agent)));
    return found.map((message) => ({ ...message, origin: message.origin ?? null }));
  }

  /** What changed from an older snapshot to this one. */
  async changesSince(older: Snapshot): Promise<PathChange[]> {
    const other = natives.get(older);
    if (!other) throw wrong("older", "a snapshot", older);
    const found = await later(() => this.#native.changesSince(other));
    return found.map(({ path, kind }) => [path, kind]);
  }
}

function named<T>(values: NativeNamed<T>[]): Record<string, T> {
  return Object.fromEntries(values.map(({ name, value }) => [name, value]));
}

function scanned(section: string, prefix: string, options: ScanOptions) {
  return [
    text("section", section),
    text("prefix", prefix),
    optionalText("after", options.after),
    flag("reverse", options.reverse ?? false),
    optionalCount("limit", options.limit),
  ] as const;
}

/** A change of a branch that waits in memory. A branch that would stay the same gets no snapshot. */
export class Transaction {
  readonly #native: NativeTransaction;

  private constructor(change: NativeTransaction) {
    this.#native = change;
  }

  /** @internal */
  static of(change: NativeTransaction): Transaction {
    return new Transaction(change);
  }

  /** The branch, with its session. */
  get branch(): string {
    return this.#native.branch;
  }

  /** The part of the same change that is about another branch. All parts commit together. */
  on(branch: string, options: ExpectOptions = {}): Transaction {
    const change = now(() => this.#native.on(text("branch", branch)));
    return expecting(Transaction.of(change), change, options);
  }

  /** Sets an entry of a map section; a new section begins with it. */
  put(section: string, key: string, content: Uint8Array): void {
    now(() => this.#native.put(text("section", section), text("key", key), bytes("content", content)));
  }

  /**
   * Sets a file of the workspace, which is an entry of the section `files`. The content of a link is its
   * target.
   */
  putFile(path: string, content: Uint8Array, options: { mode?: FileMode } = {}): void {
    const mode = text("mode", options.mode ?? "regular");
    now(() => this.#native.putFile(text("path", path), bytes("content", content), mode));
  }

  /** Sets an entry unless it is there when the change is committed. */
  putNew(section: string, key: string, content: Uint8Array): void {
    now(() => this.#native.putNew(text("section", section), text("key", key), bytes("content", content)));
  }

  /** Removes an entry of a map section, if it is there. */
  remove(section: string, key: string): void {
    now(() => this.#native.remove(text("section", section), text("key", key)));
  }

  /** Appends a record to a list section; a new section begins with it. */
  push(section: string, record: Uint8Array): void {
    now(() => this.#native.push(text("section", section), bytes("record", record)));
  }

  /** Appends a record in a format to the conversation of an agent. */
  pushMessage(role: string, record: Uint8Array, options: { agent?: string; format?: string } = {}): void {
    const agent = text("agent", options.agent ?? "main");
    const format = text("format", options.format ?? "json");
    now(() => this.#native.pushMessage(text("role", role), bytes("record", record), agent, format));
  }

  /** Cuts a list section back to its first so many records. */
  cut(section: string, length: number): void {
    now(() => this.#native.cut(text("section", section), count("length", length)));
  }

  /** Makes a section one blob, whatever it was. */
  setBlob(section: string, content: Uint8Array): void {
    now(() => this.#native.setBlob(text("section", section), bytes("content", content)));
  }

  /** Removes a section, if it is there. */
  dropSection(section: string): void {
    now(() => this.#native.dropSection(text("section", section)));
  }

  /** Records a fact about the snapshot. */
  note(name: string, value: string): void {
    now(() => this.#native.note(text("name", name), text("value", value)));
  }

  /** Gives the snapshot a title in the place of the message. */
  title(title: string): void {
    now(() => this.#native.title(text("title", title)));
  }

  /** Makes the branch go on from a snapshot of any session, which is not copied. */
  goOnFrom(revision: string): Promise<void> {
    return later(async () => this.#native.goOnFrom(text("revision", revision)));
  }

  /** Makes the branch begin anew, without its history and its sections. */
  startOver(): void {
    now(() => this.#native.startOver());
  }

  /** Deletes the branch. */
  delete(): void {
    now(() => this.#native.delete());
  }

  /** Makes the change durable as one operation. Returns where the branch is now; null when it is not there. */
  commit(message?: string): Promise<string | null> {
    return later(async () => this.#native.commit(optionalText("message", message)));
  }

  /** Drops the change. */
  rollback(): void {
    this.#native.rollback();
  }
}

function expecting(change: Transaction, inner: NativeTransaction, options: ExpectOptions): Transaction {
  const { expect } = options;
  if (expect !== undefined) now(() => inner.expect(expect === null ? null : text("expect", expect)));
  return change;
}

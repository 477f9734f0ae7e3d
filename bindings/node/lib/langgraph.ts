/**
 * LangGraph on turntree: `TurntreeSaver` keeps checkpoints, `TurntreeStore` long-term memory.
 *
 * A thread is a session, so `turntree log`, `diff` and the page work on it. Everything that LangGraph keeps
 * is in four sections of the newest snapshot, where the Python package has it too:
 *
 * - `langgraph-checkpoints`, a map: `<ns>/<id>` is a checkpoint without its values, metadata, parent;
 * - `langgraph-writes`, a map: `<ns>/<id>/<task>/<idx>` is a pending write;
 * - `langgraph-values`, a map: `<ns>/<version>/<channel>` is a value, or the places of its items;
 * - `langgraph-items`, a list: items of lists, each one stored when it is new.
 *
 * The channel `messages` of the root graph is also the conversation of the agent `main`.
 */

import { isDeepStrictEqual } from "node:util";
import { type BaseMessage, isBaseMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  DeltaSnapshot,
  type PendingWrite,
  type SerializerProtocol,
  TASKS,
  WRITES_IDX_MAP,
  type WritesSortKey,
  compareWritesSortKeys,
  getCheckpointId,
  isDeltaSnapshot,
  maxChannelVersion,
  writesSortKey,
} from "@langchain/langgraph-checkpoint";
import { Conflict, InvalidInput, type Snapshot, Store, type Transaction } from "turntree";
import { SharedItems, TextVersions, byTime, callsOf, configAt, placeOf } from "./langgraph-copy.js";
import { DeltaMessages } from "./langgraph-delta.js";
import {
  ROLES,
  type Range,
  SeenList,
  losslessRecordOf,
  messageOf,
  rangesOf,
  sameStart,
  shownRecordOf,
} from "./langgraph-items.js";
import { fromMsgpack } from "./msgpack.js";
import { partsOf, quote, sessionName } from "./names.js";
import { own } from "./own.js";
import { Turns } from "./turns.js";

export { TurntreeStore } from "./langgraph-store.js";
export { PythonValue } from "./msgpack.js";

const CHECKPOINTS = "langgraph-checkpoints";
const WRITES = "langgraph-writes";
const VALUES = "langgraph-values";
const ITEMS = "langgraph-items";
const CONVERSATION = "agents/main/messages";

/** Threads whose newest lists are kept in memory. */
const MAX_THREADS = 64;
/** Entries that a scan reads at once. */
const PAGE = 64;
/** How often a change is made again when others are faster. */
const MAX_ATTEMPTS = 1000;

/** Values that are lists, and snapshots of delta channels that are lists. */
const LIST = "list";
const DELTA = "delta";

const NEWLINE = 10;
const ZERO = 0;

/** What is known of a thread since its newest snapshot. */
class Thread {
  readonly lists = new Map<string, SeenList>();
  /** What the conversation shows: places of items, or messages of a delta channel. Null before it was read. */
  shown: unknown[] | null;
  /** The messages of a delta channel at the newest checkpoint of this process. */
  delta: DeltaMessages | null = null;

  constructor(
    public tip: string | null,
    public items: number,
  ) {
    this.shown = tip === null ? [] : null;
  }
}

/** A checkpoint as it is stored, and where. */
interface Found {
  id: string;
  snapshot: Snapshot;
  thread: string;
  ns: string;
  record: Buffer;
}

/** Fills a change of a thread. It runs again if another process was faster. */
type Fill = (change: Transaction, state: Thread) => void | Promise<void>;

/** What is given to a saver. */
export interface SaverOptions {
  /**
   * A serializer of your own, such as one that encrypts. Values are opaque then: the thread has no
   * conversation to show. Encryption of the whole store keeps both.
   */
  serde?: SerializerProtocol;
}

/**
 * Keeps checkpoints in a turntree store. A value that is a list is kept item by item, so a step costs what is
 * new in it. Processes may use one store at once. Every call is durable when its promise is fulfilled.
 */
export class TurntreeSaver extends BaseCheckpointSaver implements AsyncDisposable {
  readonly #isReadable: boolean;
  #isOpenedHere = false;
  readonly #threads = new Map<string, Thread>();
  readonly #turns = new Turns();

  constructor(
    readonly store: Store,
    options: SaverOptions = {},
  ) {
    super(options.serde);
    this.#isReadable = options.serde === undefined;
  }

  /** A saver on the store in a directory, which is made if nothing is there. */
  static async open(path: string | URL, options: SaverOptions = {}): Promise<TurntreeSaver> {
    const saver = new TurntreeSaver(await Store.open(path, { actor: "langgraph" }), options);
    saver.#isOpenedHere = true;
    return saver;
  }

  /** Closes the store if `open` opened it: a store that was passed in belongs to its owner. */
  async close(): Promise<void> {
    if (this.#isOpenedHere) await this.store.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // Reading.

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const thread = config.configurable?.["thread_id"];
    if (thread === undefined) return undefined;
    const [name, ns, wanted] = [String(thread), nsOf(config) ?? "", getCheckpointId(config)];
    return this.#turns.take(name, async () => {
      const snapshot = await this.store.newest(sessionName(name));
      const record = snapshot && (await recordIn(snapshot, ns, wanted));
      if (!snapshot || !record) return undefined;
      const state = await this.#state(name, snapshot);
      return this.#tuple({ ...record, snapshot, thread: name, ns }, state);
    });
  }

  override async *list(
    config: RunnableConfig,
    options: CheckpointListOptions = {},
  ): AsyncGenerator<CheckpointTuple> {
    const { limit = Number.POSITIVE_INFINITY, before, filter } = options;
    const thread = config.configurable?.["thread_id"];
    const threads = thread === undefined ? await this.#threadIds() : [String(thread)];
    const below = before && getCheckpointId(before);
    const found = threads.map((name) => this.#records(name, nsOf(config), below, getCheckpointId(config)));
    let left = limit;
    if (left <= 0) return;
    for await (const record of newestFirst(found)) {
      if (filter && !(await this.#hasMetadata(record.record, filter))) continue;
      yield await this.#tuple(record, null);
      left -= 1;
      if (left <= 0) return;
    }
  }

  async #hasMetadata(record: Buffer, filter: Record<string, unknown>): Promise<boolean> {
    const { metadata } = await this.#parts(record);
    return Object.entries(filter).every(([key, value]) =>
      isDeepStrictEqual(own(metadata as unknown as Record<string, unknown>, key), value),
    );
  }

  async #threadIds(): Promise<string[]> {
    const names = (await this.store.sessions()).map(partsOf);
    return names.filter((parts) => parts.length === 1).map(([thread]) => thread);
  }

  /** The checkpoints of a thread, newest first. */
  async *#records(thread: string, ns?: string, below?: string, wanted?: string): AsyncGenerator<Found> {
    const snapshot = await this.store.newest(sessionName(thread));
    if (!snapshot) return;
    const namespaces = ns === undefined ? await namespacesOf(snapshot) : [ns];
    yield* newestFirst(namespaces.map((one) => recordsIn(snapshot, thread, one, below, wanted)));
  }

  /** The checkpoint, the metadata and the parent that a record has. */
  async #parts(record: Buffer): Promise<{
    checkpoint: Checkpoint;
    metadata: CheckpointMetadata;
    parent: string | null;
  }> {
    const [head, body] = split(record, NEWLINE);
    const [kind, length, metadataKind, parent] = JSON.parse(head) as [string, number, string, string | null];
    const [checkpoint, metadata] = await Promise.all([
      this.#load(kind, body.subarray(0, length)),
      this.#load(metadataKind, body.subarray(length)),
    ]);
    return { checkpoint: checkpoint as Checkpoint, metadata: metadata as CheckpointMetadata, parent };
  }

  async #tuple(found: Found, state: Thread | null): Promise<CheckpointTuple> {
    const { snapshot, thread, ns, id } = found;
    const { checkpoint, metadata, parent } = await this.#parts(found.record);
    const read = Object.entries(checkpoint.channel_versions).map(async ([channel, version]) => {
      const stored = await snapshot.get(VALUES, valueKey(ns, channel, version));
      return stored && ([channel, await this.#value(snapshot, ns, channel, stored, state)] as const);
    });
    const values = Object.fromEntries((await Promise.all(read)).filter((value) => value !== null));
    const whole = { ...checkpoint, channel_values: values };
    if (checkpoint.v < 4 && parent !== null) await this.#migrate(whole, snapshot, ns, parent);
    const tuple: CheckpointTuple = {
      config: configOf(thread, ns, id),
      checkpoint: whole,
      metadata,
      pendingWrites: await this.#writes(snapshot, ns, id),
    };
    return parent === null ? tuple : { ...tuple, parentConfig: configOf(thread, ns, parent) };
  }

  /** Before version 4 of checkpoints, what a step sends stood among the writes of the step before it. */
  async #migrate(checkpoint: Checkpoint, snapshot: Snapshot, ns: string, parent: string): Promise<void> {
    const writes = await this.#writes(snapshot, ns, parent);
    const versions = Object.values(checkpoint.channel_versions);
    const version = versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined);
    checkpoint.channel_values[TASKS] = writes.filter(([, channel]) => channel === TASKS).map(([, , sent]) => sent);
    checkpoint.channel_versions = { ...checkpoint.channel_versions, [TASKS]: version };
  }

  async #writes(snapshot: Snapshot, ns: string, id: string): Promise<CheckpointPendingWrite[]> {
    const writes: { order: WritesSortKey; write: CheckpointPendingWrite }[] = [];
    for (const [key, stored] of await snapshot.scan(WRITES, `${checkpointKey(ns, id)}/`)) {
      const [head, body] = split(stored, NEWLINE);
      const [task, channel, path, kind] = JSON.parse(head) as [string, string, string, string];
      const order = writesSortKey(path, task, Number(lastOf(key)));
      writes.push({ order, write: [task, channel, await this.#load(kind, body)] });
    }
    return writes.sort((a, b) => compareWritesSortKeys(a.order, b.order)).map(({ write }) => write);
  }

  async #value(
    snapshot: Snapshot,
    ns: string,
    channel: string,
    stored: Buffer,
    state: Thread | null,
  ): Promise<unknown> {
    const [kind, body] = split(stored, ZERO);
    if (kind === LIST) return this.#items(snapshot, ns, channel, stored, state);
    if (kind === DELTA) return new DeltaSnapshot(await this.#items(snapshot, ns, channel, stored, state));
    return this.#load(kind, body);
  }

  /** The items of a value that is a list. Those that were read or stored last are shared. */
  async #items(
    snapshot: Snapshot,
    ns: string,
    channel: string,
    stored: Buffer,
    state: Thread | null,
  ): Promise<unknown[]> {
    const places = storedPlaces(stored);
    const known = state?.lists.get(listKey(ns, channel));
    const same = known ? known.sameItems(sameStart(known.places, places)) : 0;
    if (known && same === places.length) return known.objects.slice(0, same);
    const list = known ? known.first(same) : new SeenList();
    for (const [start, stop] of rangesOf(places.slice(same))) {
      const items = await snapshot.list(ITEMS, start, stop);
      const values = await Promise.all(items.map((item) => this.#item(item)));
      values.forEach((value, at) => list.add(value, start + at));
    }
    state?.lists.set(listKey(ns, channel), list);
    return [...list.objects];
  }

  async #item(stored: Buffer): Promise<unknown> {
    if (stored[0] === 0x7b) return messageOf(stored);
    const [kind, body] = split(stored, ZERO);
    return this.#load(kind, body);
  }

  /** What the serializer has written, here or in Python. */
  #load(kind: string, body: Buffer): Promise<unknown> {
    if (this.#isReadable && kind === "msgpack") return Promise.resolve(fromMsgpack(body));
    if (this.#isReadable && kind === "null") return Promise.resolve(null);
    // As a plain array of bytes, which is what bytes themselves are given back as.
    return this.serde.loadsTyped(kind, new Uint8Array(body));
  }

  // Writing.

  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const [thread, ns] = [threadOf(config), nsOf(config) ?? ""];
    await this.#commit(thread, await this.#put(config, checkpoint, metadata, newVersions));
    return configOf(thread, ns, checkpoint.id);
  }

  /** Prepares a checkpoint: returns what stores it with a change. */
  async #put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<Fill> {
    const ns = nsOf(config) ?? "";
    const { channel_values: values, ...bare } = checkpoint;
    const [[kind, body], [metadataKind, metadataBody]] = await Promise.all([
      this.serde.dumpsTyped(bare),
      this.serde.dumpsTyped(metadata),
    ]);
    const parent: unknown = config.configurable?.["checkpoint_id"] ?? null;
    const head = `${JSON.stringify([kind, body.length, metadataKind, parent])}\n`;
    const record = Buffer.concat([Buffer.from(head), body, metadataBody]);
    return async (change, state) => {
      let title = `step ${metadata.step ?? "?"} (${metadata.source ?? "checkpoint"})`;
      for (const [channel, version] of Object.entries(newVersions)) {
        const key = valueKey(ns, channel, version);
        const value = own(values, channel);
        if (value === undefined) {
          change.remove(VALUES, key);
          continue;
        }
        change.put(VALUES, key, await this.#stored(change, state, ns, channel, value));
      }
      if (ns === "" && this.#isReadable) {
        const messages = own(values, "messages");
        const deltas = (metadata as Deltas).counters_since_delta_snapshot ?? {};
        if (isDeltaSnapshot(messages) || Object.hasOwn(deltas, "messages")) {
          title += await this.#showDelta(change, state, parent as string | null, checkpoint.id, messages);
        } else if (messages !== undefined && Object.hasOwn(newVersions, "messages")) {
          const known = state.lists.get(listKey("", "messages"));
          if (known?.hasOnlyMessages) title += await this.#show(change, state, known.objects, known.places);
        }
      }
      change.put(CHECKPOINTS, checkpointKey(ns, checkpoint.id), record);
      change.title((ns ? `${ns}: ${title}` : title).toWellFormed());
    };
  }

  override async putWrites(
    config: RunnableConfig,
    writes: PendingWrite[],
    taskId: string,
    taskPath = "",
  ): Promise<void> {
    await this.#commit(threadOf(config), await this.#putWrites(config, writes, taskId, taskPath));
  }

  /** Prepares writes: returns what stores them with a change. */
  async #putWrites(
    config: RunnableConfig,
    writes: PendingWrite[],
    taskId: string,
    taskPath: string,
  ): Promise<Fill> {
    const [ns, id] = [nsOf(config) ?? "", getCheckpointId(config)];
    if (!id) throw new InvalidInput("the config has no checkpoint_id: writes belong to a checkpoint");
    const dumped = writes.map(async ([channel, value], at) => {
      const idx = own(WRITES_IDX_MAP, channel) ?? at;
      const [kind, body] = await this.serde.dumpsTyped(value);
      const head = `${JSON.stringify([taskId, channel, taskPath, kind])}\n`;
      const key = `${checkpointKey(ns, id)}/${quote(taskId)}/${idx}`;
      return { idx, key, content: Buffer.concat([Buffer.from(head), body]) };
    });
    const entries = await Promise.all(dumped);
    const channels = [...new Set(writes.map(([channel]) => channel))].sort();
    return (change) => {
      for (const { idx, key, content } of entries) {
        // The first write of a task counts, and the last word of an error or an interrupt.
        if (idx >= 0) change.putNew(WRITES, key, content);
        else change.put(WRITES, key, content);
      }
      change.title(`writes ${channels.join(", ")}`.toWellFormed());
    };
  }

  /** Commits what `fill` does to a thread, again when another process was faster. */
  async #commit(thread: string, fill: Fill): Promise<void> {
    const name = sessionName(thread);
    await this.#turns.take(thread, async () => {
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
        const state = await this.#state(thread, null);
        const change = this.store.begin(name, "checkpoint", { expect: state.tip });
        try {
          await fill(change, state);
          state.tip = await change.commit();
          return;
        } catch (error) {
          this.#threads.delete(thread);
          if (!(error instanceof Conflict)) throw error;
        }
      }
      throw new Conflict(`others are always faster on thread ${thread}`);
    });
  }

  /** A value as it is stored: whole, or the places of its items. */
  async #stored(
    change: Transaction,
    state: Thread,
    ns: string,
    channel: string,
    value: unknown,
  ): Promise<Buffer> {
    const isDelta = isDeltaSnapshot(value);
    const items = isDelta ? value.value : value;
    if (!Array.isArray(items) || items.length === 0 || isScalar(items[0])) {
      state.lists.delete(listKey(ns, channel));
      return this.#dump(value);
    }
    const known = state.lists.get(listKey(ns, channel)) ?? new SeenList();
    const same = known.sameItems(sameStart(known.objects, items));
    const moved = new Map(known.objects.slice(same).map((object, at) => [object, same + at]));
    const list = known.first(same);
    for (const item of items.slice(same) as unknown[]) {
      const at = typeof item === "object" ? moved.get(item) : undefined;
      if (at !== undefined && known.isSame(at)) {
        list.take(known, at);
      } else {
        change.push(ITEMS, await this.#packed(item));
        list.add(item, state.items);
        state.items += 1;
      }
    }
    state.lists.set(listKey(ns, channel), list);
    return packedPlaces(isDelta ? DELTA : LIST, list.ranges);
  }

  /** An item as bytes. A message is what a conversation shows, if nothing of it is lost so. */
  async #packed(item: unknown): Promise<Buffer> {
    const record = this.#isReadable && isBaseMessage(item) ? losslessRecordOf(item) : null;
    return record ?? this.#dump(item);
  }

  async #dump(value: unknown): Promise<Buffer> {
    const [kind, body] = await this.serde.dumpsTyped(value);
    return Buffer.concat([Buffer.from(`${kind}\0`), body]);
  }

  /** Makes the conversation of the session these messages, told apart by keys. Returns words for a title. */
  async #show(change: Transaction, state: Thread, shown: readonly unknown[], keys: readonly unknown[]): Promise<string> {
    const all = shown as readonly BaseMessage[];
    state.shown ??= await this.#shown(state, all, keys);
    const same = sameStart(state.shown, keys);
    if (same < state.shown.length) change.cut(CONVERSATION, same);
    const messages = all.slice(same);
    for (const message of messages) {
      const role = own(ROLES, message.type) ?? "other";
      change.pushMessage(role, shownRecordOf(message), { format: "openai-chat" });
    }
    state.shown = [...keys];
    const last = messages.at(-1);
    if (!last) return "";
    const words = last.text.replace(/\s+/g, " ").trim().toWellFormed();
    return `: ${own(ROLES, last.type) ?? last.type}: ${Array.from(words).slice(0, 60).join("")}`;
  }

  /** The keys of what the conversation shows, as far as it goes along with these messages. */
  async #shown(state: Thread, messages: readonly BaseMessage[], keys: readonly unknown[]): Promise<unknown[]> {
    if (state.tip === null) return [];
    const records = await (await this.store.snapshot(state.tip)).list(CONVERSATION);
    const isShown = (record: Buffer, at: number) =>
      at < messages.length &&
      isDeepStrictEqual(
        JSON.parse(record.toString()),
        JSON.parse(shownRecordOf(messages[at] as BaseMessage).toString()),
      );
    const end = records.findIndex((record, at) => !isShown(record, at));
    const same = end < 0 ? records.length : end;
    // What else it shows has no key, and goes.
    return [...keys.slice(0, same), ...Array<null>(records.length - same).fill(null)];
  }

  /** Shows the messages of a delta channel at a checkpoint, which may have their value. */
  async #showDelta(
    change: Transaction,
    state: Thread,
    parent: string | null,
    id: string,
    value: unknown,
  ): Promise<string> {
    let delta = state.delta;
    state.delta = null;
    let [seed, writes]: [unknown, unknown[]] = [value, []];
    if (isDeltaSnapshot(value)) {
      // At a fork it is the only source: the writes at the parent belong to another branch.
      delta = null;
    } else if (parent !== null && state.tip !== null) {
      const snapshot = await this.store.snapshot(state.tip);
      if (delta?.checkpoint !== parent) {
        delta = null;
        [seed, writes] = await this.#past(snapshot, parent, "messages");
      }
      writes.push(...(await this.#writesTo(snapshot, parent, "messages")));
    }
    try {
      delta ??= new DeltaMessages(seed);
      for (const write of writes) delta.apply(write);
    } catch {
      return ""; // The channel has something else than messages.
    }
    delta.checkpoint = id;
    state.delta = delta;
    return this.#show(change, state, delta.messages, delta.messages);
  }

  /** The nearest value of a channel of the root graph at a checkpoint or before it, and the writes since. */
  async #past(snapshot: Snapshot, id: string, channel: string): Promise<[seed: unknown, writes: unknown[]]> {
    const writes: unknown[][] = [];
    for (let at: string | null = id; at !== null; ) {
      const record: Buffer | null = await snapshot.get(CHECKPOINTS, checkpointKey("", at));
      if (!record) break;
      const { checkpoint, parent } = await this.#parts(record);
      const version = own(checkpoint.channel_versions, channel);
      const stored = version === undefined ? null : await snapshot.get(VALUES, valueKey("", channel, version));
      if (stored) return [await this.#value(snapshot, "", channel, stored, null), writes.reverse().flat()];
      if (parent !== null) writes.push(await this.#writesTo(snapshot, parent, channel));
      at = parent;
    }
    return [undefined, writes.reverse().flat()];
  }

  async #writesTo(snapshot: Snapshot, id: string, channel: string): Promise<unknown[]> {
    const writes = await this.#writes(snapshot, "", id);
    return writes.filter(([, to]) => to === channel).map(([, , value]) => value);
  }

  // Whole threads.

  /**
   * Copies threads from another saver, all by default, with their pending writes. Returns the number of new
   * checkpoints.
   *
   * Each checkpoint is one durable commit, so a copy that was interrupted continues where it ended, and one
   * that is repeated copies what is new. Reads each checkpoint of `old` twice, and has one in memory at a
   * time. Steps that are added to `old` during the copy may be missing.
   */
  async copyFrom(old: BaseCheckpointSaver, threadIds?: Iterable<string>): Promise<number> {
    const chosen = threadIds === undefined ? [{}] : Array.from(threadIds, (id) => ({ thread_id: id }));
    const places = [];
    for (const configurable of chosen) {
      for await (const found of old.list({ configurable })) places.push(placeOf(found));
    }
    const [shared, texts] = [new SharedItems((item) => this.serde.dumpsTyped(item)), new TextVersions()];
    let copied = 0;
    for (const place of places.sort(byTime)) {
      const found = await old.getTuple(configAt(place));
      if (found) copied += Number(await this.#copy(shared, texts, found));
    }
    return copied;
  }

  /** Copies a checkpoint with its writes. Returns whether it is new. */
  async #copy(shared: SharedItems, texts: TextVersions, found: CheckpointTuple): Promise<boolean> {
    const place = placeOf(found);
    const { thread, id, ns } = place;
    const values = await shared.of(place, found.checkpoint.channel_values);
    const before: unknown = found.parentConfig?.configurable?.["checkpoint_id"];
    const whole: Checkpoint = { ...found.checkpoint, channel_values: values };
    const checkpoint = texts.of(place, before === undefined ? undefined : String(before), whole);
    const snapshot = await this.store.newest(sessionName(thread));
    const missing: ChannelVersions = {};
    for (const [channel, version] of Object.entries(checkpoint.channel_versions)) {
      const stored = await snapshot?.get(VALUES, valueKey(ns, channel, version));
      if (!stored) missing[channel] = version;
    }
    const parent = found.parentConfig ?? { configurable: { thread_id: thread, checkpoint_ns: ns } };
    const metadata = found.metadata ?? ({} as CheckpointMetadata);
    const fills: Fill[] = [];
    for (const { task, path, writes } of callsOf(found.pendingWrites)) {
      fills.push(await this.#putWrites(configAt(place), writes, task, path));
    }
    // The checkpoint comes last, because the last one gives the turn its title.
    fills.push(await this.#put(parent, checkpoint, metadata, missing));
    await this.#commit(thread, async (change, state) => {
      for (const fill of fills) await fill(change, state);
    });
    return !(await snapshot?.get(CHECKPOINTS, checkpointKey(ns, id)));
  }

  override async deleteThread(threadId: string): Promise<void> {
    await this.#turns.take(threadId, async () => {
      this.#threads.delete(threadId);
      await this.store.delete(sessionName(threadId));
    });
  }

  /** Copies a thread, with all that its checkpoints need. Nothing of it is copied on the disk. */
  async copyThread(sourceThreadId: string, targetThreadId: string): Promise<void> {
    const [source, target] = [sessionName(sourceThreadId), sessionName(targetThreadId)];
    const tip = await this.store.tip(source);
    if (tip === null || source === target) return;
    const isCopied = await this.#turns.take(targetThreadId, async () => {
      this.#threads.delete(targetThreadId);
      const change = this.store.begin(target, `copy of ${sourceThreadId}`, { expect: null });
      await change.goOnFrom(tip);
      try {
        await change.commit();
        return true;
      } catch (error) {
        if (error instanceof Conflict) return false;
        throw error;
      }
    });
    if (!isCopied) await this.#copyInto(await this.store.snapshot(tip), targetThreadId);
  }

  /** Copies checkpoints into a thread that has some already. */
  async #copyInto(source: Snapshot, thread: string): Promise<void> {
    await this.#commit(thread, async (change, state) => {
      const moved = state.items;
      for (const item of await source.list(ITEMS)) {
        change.push(ITEMS, item);
        state.items += 1;
      }
      for (const section of [CHECKPOINTS, WRITES]) {
        for (const [key, content] of await source.scan(section)) change.put(section, key, content);
      }
      for (const [key, content] of await source.scan(VALUES)) {
        change.put(VALUES, key, shifted(content, (place) => place + moved));
      }
    });
  }

  /** Drops the checkpoints that these runs made. */
  async deleteForRuns(runIds: readonly string[]): Promise<void> {
    const runs = new Set<unknown>(runIds);
    for (const thread of runs.size > 0 ? await this.#threadIds() : []) {
      const doomed = new Set<string>();
      for await (const { ns, id, record } of this.#records(thread)) {
        const metadata = (await this.#parts(record)).metadata as unknown as Record<string, unknown>;
        if (runs.has(metadata["run_id"])) doomed.add(checkpointKey(ns, id));
      }
      if (doomed.size > 0) await this.#keep(thread, (key) => !doomed.has(key));
    }
  }

  /**
   * Drops all checkpoints but the newest of each namespace, and those that its delta channels are read from;
   * or, with the strategy `delete`, the threads.
   */
  async prune(
    threadIds: readonly string[],
    options: { strategy?: "keep_latest" | "delete" } = {},
  ): Promise<void> {
    const { strategy = "keep_latest" } = options;
    if (strategy !== "keep_latest" && strategy !== "delete") {
      throw new InvalidInput(`unknown strategy: ${String(strategy)}`);
    }
    for (const thread of threadIds) {
      if (strategy === "delete") {
        await this.deleteThread(thread);
        continue;
      }
      const snapshot = await this.store.newest(sessionName(thread));
      if (!snapshot) continue;
      const kept = new Set<string>();
      for (const ns of await namespacesOf(snapshot)) {
        for await (const key of this.#needed(snapshot, ns)) kept.add(key);
      }
      await this.#keep(thread, (key) => kept.has(key));
    }
  }

  /**
   * The newest checkpoint of a namespace, and its ancestors as far as a channel without a value of its own
   * goes back to find one.
   */
  async *#needed(snapshot: Snapshot, ns: string): AsyncGenerator<string> {
    let [key] = await snapshot.keys(CHECKPOINTS, checkpointKey(ns, ""), { reverse: true, limit: 1 });
    let open: string[] | undefined;
    while (key !== undefined) {
      const record = await snapshot.get(CHECKPOINTS, key);
      if (!record) return;
      yield key;
      const { checkpoint, metadata, parent } = await this.#parts(record);
      open ??= Object.keys((metadata as Deltas).counters_since_delta_snapshot ?? {});
      const versions = checkpoint.channel_versions;
      const stored = await Promise.all(
        open.map(async (channel) => {
          const version = own(versions, channel);
          return version !== undefined && (await snapshot.get(VALUES, valueKey(ns, channel, version)));
        }),
      );
      open = open.filter((_, at) => !stored[at]);
      key = parent !== null && open.length > 0 ? checkpointKey(ns, parent) : undefined;
    }
  }

  /**
   * Leaves the checkpoints whose keys are kept, with all that is theirs, as a history of its own: what is
   * dropped comes free with a collection, once no undo can want it.
   */
  async #keep(thread: string, keeps: (key: string) => boolean): Promise<void> {
    await this.#commit(thread, async (change, state) => {
      if (state.tip === null) return;
      const snapshot = await this.store.snapshot(state.tip);
      const records = (await snapshot.scan(CHECKPOINTS)).filter(([key]) => keeps(key));
      change.startOver();
      change.title(`${records.length} checkpoints kept`);
      await this.#carry(change, snapshot, records);
    });
    await this.#turns.take(thread, () => this.#threads.delete(thread));
  }

  async #carry(change: Transaction, snapshot: Snapshot, records: [string, Buffer][]): Promise<void> {
    const values = new Map<string, Buffer>();
    for (const [key, record] of records) {
      change.put(CHECKPOINTS, key, record);
      for (const [write, content] of await snapshot.scan(WRITES, `${key}/`)) change.put(WRITES, write, content);
      const ns = nsOfKey(key);
      const { checkpoint } = await this.#parts(record);
      for (const [channel, version] of Object.entries(checkpoint.channel_versions)) {
        const name = valueKey(ns, channel, version);
        const stored = await snapshot.get(VALUES, name);
        if (stored) values.set(name, stored);
      }
    }
    const used = new Set([...values.values()].flatMap(storedPlaces));
    const places = [...used].sort((a, b) => a - b);
    const placeOf = new Map(places.map((place, at) => [place, at]));
    for (const [start, stop] of rangesOf(places)) {
      for (const item of await snapshot.list(ITEMS, start, stop)) change.push(ITEMS, item);
    }
    for (const [name, stored] of values) {
      change.put(VALUES, name, shifted(stored, (place) => placeOf.get(place) as number));
    }
    for (const { role, record, format } of await snapshot.messages()) {
      change.pushMessage(role, record, { format });
    }
  }

  /** What is known of a thread, at a snapshot or at where it was last seen. */
  async #state(thread: string, snapshot: Snapshot | null): Promise<Thread> {
    let state = this.#threads.get(thread);
    if (!state || (snapshot && state.tip !== snapshot.id)) {
      const newest = snapshot ?? (await this.store.newest(sessionName(thread)));
      state = new Thread(newest?.id ?? null, newest ? await newest.count(ITEMS) : 0);
    }
    // The one that was used last stands last.
    this.#threads.delete(thread);
    this.#threads.set(thread, state);
    for (const oldest of this.#threads.keys()) {
      if (this.#threads.size <= MAX_THREADS) break;
      this.#threads.delete(oldest);
    }
    return state;
  }

  override getNextVersion(current: number | string | undefined): number {
    const number = current === undefined ? 0 : Number.parseInt(String(current), 10);
    // Random, so that two forks of one checkpoint never have the same version for two values.
    const version = `${String(number + 1).padStart(32, "0")}.${Math.random().toFixed(16)}`;
    // Text as in Python, which compares no number with it; `compile` is typed for numbers alone.
    return version as unknown as number;
  }
}

interface Deltas {
  counters_since_delta_snapshot?: Record<string, unknown>;
}

function threadOf(config: RunnableConfig): string {
  const thread: unknown = config.configurable?.["thread_id"];
  if (thread === undefined) throw new InvalidInput("the config has no thread_id: a checkpoint belongs to a thread");
  return String(thread);
}

function nsOf(config: RunnableConfig): string | undefined {
  return config.configurable?.["checkpoint_ns"] as string | undefined;
}

function configOf(thread: string, ns: string, id: string): RunnableConfig {
  return { configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } };
}

const PLAIN_NS = "-_.:|=,";

function checkpointKey(ns: string, id: string): string {
  return `${quote(ns, PLAIN_NS)}/${quote(id)}`;
}

function valueKey(ns: string, channel: string, version: string | number): string {
  // By version, so that what a step changes lies together.
  return `${quote(ns, PLAIN_NS)}/${quote(String(version))}/${quote(channel, PLAIN_NS)}`;
}

function listKey(ns: string, channel: string): string {
  return JSON.stringify([ns, channel]);
}

function nsOfKey(key: string): string {
  return partsOf(key.slice(0, key.indexOf("/")))[0];
}

function lastOf(key: string): string {
  return partsOf(key.slice(key.lastIndexOf("/") + 1))[0];
}

function split(stored: Buffer, separator: number): [head: string, body: Buffer] {
  const at = stored.indexOf(separator);
  return [stored.toString("utf8", 0, at), stored.subarray(at + 1)];
}

function isScalar(value: unknown): boolean {
  return value == null || typeof value === "number" || typeof value === "boolean";
}

function placesOf(ranges: Range[]): number[] {
  return ranges.flatMap(([start, stop]) => Array.from({ length: stop - start }, (_, at) => start + at));
}

function storedPlaces(stored: Buffer): number[] {
  const [kind, body] = split(stored, ZERO);
  return kind === LIST || kind === DELTA ? placesOf(JSON.parse(body.toString()) as Range[]) : [];
}

/** A value that is a list, as the ranges of its items. */
function packedPlaces(kind: string, ranges: Range[]): Buffer {
  return Buffer.from(`${kind}\0${JSON.stringify(ranges)}`);
}

/** A stored value whose items have moved. */
function shifted(stored: Buffer, placeOf: (place: number) => number): Buffer {
  const [kind] = split(stored, ZERO);
  if (kind !== LIST && kind !== DELTA) return stored;
  return packedPlaces(kind, rangesOf(storedPlaces(stored).map(placeOf)));
}

/** The namespaces that have a checkpoint. Looks once for each. */
async function namespacesOf(snapshot: Snapshot): Promise<string[]> {
  const found: string[] = [];
  let after: string | undefined;
  for (;;) {
    const [key] = await snapshot.keys(CHECKPOINTS, "", { after, limit: 1 });
    if (key === undefined) return found;
    found.push(nsOfKey(key));
    // The key behind all of this namespace: 0 follows the slash.
    after = `${key.slice(0, key.indexOf("/"))}0`;
  }
}

async function recordIn(
  snapshot: Snapshot,
  ns: string,
  wanted: string | undefined,
): Promise<{ id: string; record: Buffer } | null> {
  if (wanted) {
    const record = await snapshot.get(CHECKPOINTS, checkpointKey(ns, wanted));
    return record && { id: wanted, record };
  }
  const options = { reverse: true, limit: 1 };
  const [newest] = await snapshot.scan(CHECKPOINTS, checkpointKey(ns, ""), options);
  return newest ? { id: lastOf(newest[0]), record: newest[1] } : null;
}

async function* recordsIn(
  snapshot: Snapshot,
  thread: string,
  ns: string,
  below: string | undefined,
  wanted: string | undefined,
): AsyncGenerator<Found> {
  if (wanted) {
    const found = await recordIn(snapshot, ns, wanted);
    if (found && (!below || wanted < below)) yield { ...found, snapshot, thread, ns };
    return;
  }
  let after = below ? checkpointKey(ns, below) : undefined;
  for (;;) {
    const options = { after, reverse: true, limit: PAGE };
    const page = await snapshot.scan(CHECKPOINTS, checkpointKey(ns, ""), options);
    for (const [key, record] of page) yield { id: lastOf(key), record, snapshot, thread, ns };
    after = page.at(-1)?.[0];
    if (after === undefined) return;
  }
}

/** Checkpoints of several sources, each newest first, as one such. */
async function* newestFirst(sources: AsyncGenerator<Found>[]): AsyncGenerator<Found> {
  const heads: { source: AsyncGenerator<Found>; found: Found }[] = [];
  const advance = async (source: AsyncGenerator<Found>) => {
    const next = await source.next();
    if (!next.done) heads.push({ source, found: next.value });
  };
  for (const source of sources) await advance(source);
  while (heads.length > 0) {
    const newest = heads.reduce((best, head) => (head.found.id > best.found.id ? head : best));
    yield newest.found;
    heads.splice(heads.indexOf(newest), 1);
    await advance(newest.source);
  }
}

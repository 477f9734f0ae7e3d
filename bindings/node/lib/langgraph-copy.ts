/** Checkpoints of other savers of LangGraph, as they are copied: thread by thread, oldest first. */

import { createHash } from "node:crypto";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  type ChannelVersions,
  type Checkpoint,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  DeltaSnapshot,
  type PendingWrite,
  WRITES_IDX_MAP,
  getCheckpointId,
  isDeltaSnapshot,
} from "@langchain/langgraph-checkpoint";

/** A checkpoint of a thread. Its id sorts by time. */
export interface Place {
  thread: string;
  id: string;
  ns: string;
}

/** A call of `putWrites`. */
export interface WritesCall {
  task: string;
  path: string;
  writes: PendingWrite[];
}

/** A value as it is serialized. */
type Form = readonly [kind: string, bytes: Uint8Array];

export function placeOf({ config }: CheckpointTuple): Place {
  const { thread_id: thread, checkpoint_ns: ns = "" } = config.configurable ?? {};
  return { thread: String(thread), id: getCheckpointId(config), ns: String(ns) };
}

export function configAt({ thread, id, ns }: Place): RunnableConfig {
  return { configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } };
}

/** Sorts places by thread, and a thread by time. */
export function byTime(one: Place, other: Place): number {
  return compare(one.thread, other.thread) || compare(one.id, other.id) || compare(one.ns, other.ns);
}

function compare(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

/**
 * Replaces equal items of lists by those of the checkpoint before: another saver returns new objects each
 * time, and a saver stores every object that it has not seen. Keeps the lists of one thread.
 */
export class SharedItems {
  #thread = "";
  readonly #lists = new Map<string, { items: unknown[]; forms: Form[] }>();

  /** `form` serializes an item: two items are equal if they have the same form. */
  constructor(readonly form: (item: unknown) => Promise<Form>) {}

  /** The values of a checkpoint with shared items. */
  async of({ thread, ns }: Place, values: Record<string, unknown>): Promise<Record<string, unknown>> {
    if (thread !== this.#thread) {
      this.#thread = thread;
      this.#lists.clear();
    }
    const shared: [string, unknown][] = [];
    for (const [channel, value] of Object.entries(values)) {
      shared.push([channel, await this.#shared(`${ns}\0${channel}`, value)]);
    }
    return Object.fromEntries(shared);
  }

  async #shared(channel: string, value: unknown): Promise<unknown> {
    if (isDeltaSnapshot(value)) return new DeltaSnapshot(await this.#shared(channel, value.value));
    if (!Array.isArray(value)) return value;
    const known = this.#lists.get(channel);
    const forms = await Promise.all(value.map(this.form));
    const items = value.map((item: unknown, at) => {
      const [before, now] = [known?.forms[at], forms[at]];
      return before && now && isSame(before, now) ? known?.items[at] : item;
    });
    this.#lists.set(channel, { items, forms });
    return [...items];
  }
}

/** The versions of a checkpoint: those of its channels, and those that each node has seen. */
interface Versions {
  channels: ChannelVersions;
  seen: Record<string, ChannelVersions>;
}

/**
 * Replaces versions that are numbers by text, as `getNextVersion` writes it. Numbers do not compare with text,
 * and two forks of one checkpoint have the same number for two values, so a text also has digits that depend on
 * the checkpoint that wrote the value. Keeps the versions of one thread.
 */
export class TextVersions {
  #thread = "";
  readonly #known = new Map<string, { old: Versions; text: Versions }>();

  /** The checkpoint with versions as text. Its parent must have been given before. */
  of({ thread, id, ns }: Place, parent: string | undefined, checkpoint: Checkpoint): Checkpoint {
    const old: Versions = { channels: checkpoint.channel_versions, seen: checkpoint.versions_seen };
    const isText = (versions: ChannelVersions) => Object.values(versions).every((one) => typeof one === "string");
    if (isText(old.channels) && Object.values(old.seen).every(isText)) return checkpoint;
    if (thread !== this.#thread) {
      this.#thread = thread;
      this.#known.clear();
    }
    const before = this.#known.get(`${ns}\0${parent}`);
    const channels = mapped(old.channels, (version, channel) => {
      const isKept = before?.old.channels[channel] === version;
      return isKept ? before.text.channels[channel] : versionText(version, digitsOf(id));
    });
    const text: Versions = { channels, seen: {} };
    for (const [node, versions] of Object.entries(old.seen)) {
      text.seen[node] = mapped(versions, (version, channel) => {
        if (before?.old.seen[node]?.[channel] === version) return before.text.seen[node]?.[channel];
        if (before?.old.channels[channel] === version) return before.text.channels[channel];
        // After all texts of its number: a node has seen every value of it.
        return old.channels[channel] === version ? channels[channel] : versionText(version, "9".repeat(16));
      });
    }
    this.#known.set(`${ns}\0${id}`, { old, text });
    return { ...checkpoint, channel_versions: text.channels, versions_seen: text.seen };
  }
}

function mapped(
  versions: ChannelVersions,
  map: (version: number, channel: string) => string | number | undefined,
): ChannelVersions {
  const entries = Object.entries(versions).map(([channel, version]) => {
    return [channel, typeof version === "number" ? (map(version, channel) ?? version) : version] as const;
  });
  return Object.fromEntries(entries) as ChannelVersions;
}

function versionText(version: number, digits: string): string {
  return `${String(version).padStart(32, "0")}.0.${digits}`;
}

/** Sixteen digits that stand for a checkpoint. */
function digitsOf(id: string): string {
  const hash = createHash("sha256").update(id).digest().readBigUInt64BE();
  return String(hash % 10n ** 16n).padStart(16, "0");
}

function isSame([kind, bytes]: Form, [otherKind, otherBytes]: Form): boolean {
  return kind === otherKind && Buffer.compare(bytes, otherBytes) === 0;
}

/**
 * The calls of `putWrites` that store pending writes in this order.
 *
 * A write is stored under its number in its call, so the writes of a task belong into one call; errors and
 * interrupts have numbers of their own. A checkpoint does not say the paths by which tasks are ordered. Where
 * the order of their ids is another one, they get paths that sort before all others.
 */
export function callsOf(pending: readonly CheckpointPendingWrite[] = []): WritesCall[] {
  const tasks = new Map<string, { values: PendingWrite[]; special: PendingWrite[] }>();
  for (const [task, channel, value] of pending) {
    const of = tasks.get(task) ?? { values: [], special: [] };
    tasks.set(task, of);
    (Object.hasOwn(WRITES_IDX_MAP, channel) ? of.special : of.values).push([channel, value]);
  }
  const ids = [...tasks.keys()];
  const isSorted = ids.every((id, at) => at === 0 || compare(ids[at - 1] as string, id) < 0);
  return [...tasks].flatMap(([task, { values, special }], number) => {
    const path = isSorted ? "" : String(number).padStart(8, "0");
    return [values, special].filter((writes) => writes.length > 0).map((writes) => ({ task, path, writes }));
  });
}

/** The native library for this machine, as `src/*.rs` offers it, and its errors as exceptions by kind. */

import { errorOf } from "./errors.cjs";

export interface NativeTransaction {
  readonly branch: string;
  on(branch: string): NativeTransaction;
  expect(tip: string | null): void;
  put(section: string, key: string, content: Uint8Array): void;
  putFile(path: string, content: Uint8Array, mode: string): void;
  putNew(section: string, key: string, content: Uint8Array): void;
  remove(section: string, key: string): void;
  push(section: string, record: Uint8Array): void;
  pushMessage(role: string, record: Uint8Array, agent: string, format: string): void;
  cut(section: string, count: number): void;
  setBlob(section: string, content: Uint8Array): void;
  dropSection(section: string): void;
  note(name: string, value: string): void;
  title(title: string): void;
  goOnFrom(revision: string): Promise<void>;
  startOver(): void;
  delete(): void;
  commit(message: string | undefined): Promise<string | null>;
  rollback(): void;
}

export interface NativeNamed<T> {
  name: string;
  value: T;
}

export interface NativeEntry {
  key: string;
  content: Buffer;
}

export interface NativeMessage {
  role: string;
  format: string;
  origin?: string;
  record: Buffer;
}

export interface NativeChange {
  path: string;
  kind: "added" | "removed" | "changed";
}

export interface NativeSnapshot {
  readonly id: string;
  readonly turn: number;
  readonly title: string;
  readonly session: string;
  readonly parents: string[];
  readonly timeMicros: number;
  readonly author: string;
  readonly metadata: NativeNamed<string>[];
  sections(): Promise<NativeNamed<"blob" | "list" | "map">[]>;
  count(section: string): Promise<number>;
  get(section: string, key: string): Promise<Buffer | null>;
  read(path: string): Promise<Buffer>;
  scan(
    section: string,
    prefix: string,
    after: string | undefined,
    reverse: boolean,
    limit: number | undefined,
  ): Promise<NativeEntry[]>;
  keys(
    section: string,
    prefix: string,
    after: string | undefined,
    reverse: boolean,
    limit: number | undefined,
  ): Promise<string[]>;
  list(section: string, start: number, stop: number | undefined): Promise<Buffer[]>;
  agents(): Promise<string[]>;
  messages(agent: string): Promise<NativeMessage[]>;
  changesSince(older: NativeSnapshot): Promise<NativeChange[]>;
}

export interface NativeLogPage {
  readonly snapshots: NativeSnapshot[];
  readonly next: string | null;
}

export interface NativeStore {
  readonly path: string;
  readonly closed: boolean;
  close(): Promise<void>;
  sessions(): Promise<string[]>;
  branches(session: string | undefined): Promise<string[]>;
  tip(branch: string): Promise<string | null>;
  snapshot(revision: string): Promise<NativeSnapshot>;
  newest(branch: string): Promise<NativeSnapshot | null>;
  begin(branch: string, message: string): NativeTransaction;
  fork(branch: string, revision: string): Promise<string>;
  logPage(revision: string, limit: number): Promise<NativeLogPage>;
  diff(old: string, now: string): Promise<NativeChange[]>;
  merge(
    into: string,
    theirs: string,
  ): Promise<{ id: string; kind: "up-to-date" | "fast-forward" | "merged"; conflicts: string[] }>;
  undo(): Promise<string | null>;
  redo(): Promise<string | null>;
  delete(session: string): Promise<boolean>;
  retain(
    session: string | undefined,
    turns: number | undefined,
    seconds: number | undefined,
    budgetBytes: number | undefined,
  ): Promise<void>;
  collect(repack: boolean): Promise<{
    expiredTurns: number;
    freedObjects: number;
    freedBytes: number;
    writtenBytes: number;
  }>;
}

interface Native {
  version(): string;
  Store: {
    open(
      path: string,
      actor: string,
      create: boolean,
      maintain: boolean,
      key: Uint8Array | undefined,
    ): Promise<NativeStore>;
  };
}

/** Where the library may be: in this package as it was built here, or in the one for this system. */
function places(machine: string): string[] {
  const released = `@turntree/${machine}/native/turntree`;
  // Of the two C libraries of Linux, the wrong one refuses to load.
  const kinds = process.platform === "linux" ? ["-gnu", "-musl"] : [""];
  return [`../native/${machine}.node`, ...kinds.map((kind) => `${released}${kind}.node`)];
}

function load(): Native {
  const machine = `${process.platform}-${process.arch}`;
  let cause: unknown;
  for (const place of places(machine)) {
    try {
      return require(place) as Native;
    } catch (error) {
      const isAbsent = (error as NodeJS.ErrnoException).code === "MODULE_NOT_FOUND";
      cause = isAbsent ? (cause ?? error) : error;
    }
  }
  const text =
    `turntree has no library that runs on ${machine}: install it with its optional dependencies, ` +
    `or build the package there (npm run build)`;
  throw new Error(text, { cause });
}

export const native = load();

/** Does what is done at once. */
export function now<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw errorOf(error);
  }
}

/** Does what a thread of the pool does. */
export async function later<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw errorOf(error);
  }
}

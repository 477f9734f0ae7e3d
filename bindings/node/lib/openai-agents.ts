/**
 * The OpenAI Agents SDK on turntree: `TurntreeSession` keeps the items of a conversation.
 *
 * A session of the SDK is a session of the store, where the Python package has it too:
 *
 * - `agents/main/messages`, a list: the items, one record each, so every item shows as a message;
 * - `openai-operations`, a map: the digest of each history transaction that was applied.
 *
 * A branch of the conversation is a branch of the store: making one copies nothing.
 */

import { createHash } from "node:crypto";
import type {
  AgentInputItem,
  SessionHistoryRewriteArgs,
  SessionHistoryRewriteAwareSession,
  SessionHistoryTransactionArgs,
  SessionHistoryTransactionAwareSession,
} from "@openai/agents-core";
import { Conflict, InvalidInput, type Snapshot, Store, type Transaction } from "turntree";
import { itemFromJson, itemToJson } from "./openai-items.js";
import { partsOf, sessionName } from "./names.js";
import { Turns } from "./turns.js";

const ITEMS = "agents/main/messages";
const OPERATIONS = "openai-operations";
const FORMAT = "openai-chat";
const MAIN = "main";

/** How often a change is made again when others are faster. */
const MAX_ATTEMPTS = 1000;

/** A branch of a conversation. */
export interface SessionBranch {
  branchId: string;
  itemCount: number;
  /** The number of messages of the user. */
  userTurns: number;
  isCurrent: boolean;
}

/** The items of a snapshot, as they are stored. */
type Records = readonly Buffer[];

/**
 * A `Session` of the OpenAI Agents SDK in a turntree store. A call is durable when its promise is
 * fulfilled, and one commit, so an undo takes back a whole batch of items. Calls of one session follow
 * each other; processes may use one session at once.
 */
export class TurntreeSession
  implements SessionHistoryRewriteAwareSession, SessionHistoryTransactionAwareSession, AsyncDisposable
{
  readonly #turns = new Turns();
  #branch = MAIN;
  #isOpenedHere = false;

  constructor(
    readonly store: Store,
    readonly sessionId: string,
  ) {}

  /** A session in the store in a directory, which is created if nothing is there. */
  static async open(path: string | URL, sessionId: string): Promise<TurntreeSession> {
    const session = new TurntreeSession(await Store.open(path, { actor: "openai-agents" }), sessionId);
    session.#isOpenedHere = true;
    return session;
  }

  /** Closes the store if `open` opened it: a store that was passed in belongs to its owner. */
  async close(): Promise<void> {
    await this.#inOrder(() => undefined);
    if (this.#isOpenedHere) await this.store.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** The branch that calls read and write. */
  get branchId(): string {
    return this.#branch;
  }

  getSessionId(): Promise<string> {
    return Promise.resolve(this.sessionId);
  }

  /** The items, or the newest `limit` of them, in their order. */
  getItems(limit?: number): Promise<AgentInputItem[]> {
    return this.#inOrder(async () => {
      const snapshot = await this.store.newest(this.#name());
      if (!snapshot || (limit !== undefined && limit <= 0)) return [];
      const start = limit === undefined ? 0 : Math.max(0, (await snapshot.count(ITEMS)) - limit);
      return (await snapshot.list(ITEMS, start)).map(itemFromJson);
    });
  }

  async addItems(items: AgentInputItem[]): Promise<void> {
    if (items.length === 0) return;
    // Taken now, before the caller changes them.
    const records = items.map(itemToJson);
    await this.#inOrder(async () => {
      const change = this.store.begin(this.#name(), titleOf(records.length));
      push(change, records);
      await change.commit();
    });
  }

  popItem(): Promise<AgentInputItem | undefined> {
    return this.#change("pop an item", async (change, snapshot) => {
      const count = snapshot ? await snapshot.count(ITEMS) : 0;
      if (!snapshot || count === 0) return undefined;
      const [last] = await snapshot.list(ITEMS, count - 1);
      change.cut(ITEMS, count - 1);
      return last && itemFromJson(last);
    });
  }

  /** Removes all items of all branches. An undo brings them back. */
  async clearSession(): Promise<void> {
    await this.#inOrder(async () => {
      await this.store.delete(sessionName(this.sessionId));
      this.#branch = MAIN;
    });
  }

  /** Replaces the items by the result of a compaction. An undo brings them back. */
  async replaceHistoryWithCompaction(items: AgentInputItem[]): Promise<void> {
    const records = items.map(itemToJson);
    await this.#change("compact the items", async (change, snapshot) => {
      replace(change, (await snapshot?.list(ITEMS)) ?? [], records);
    });
  }

  /** Replaces calls of functions in stored items. Items before the first of them are not stored again. */
  async applyHistoryMutations({ mutations }: SessionHistoryRewriteArgs): Promise<void> {
    if (mutations.length === 0) return;
    const replacements = mutations.map(({ callId, replacement }) => ({ callId, record: itemToJson(replacement) }));
    await this.#change("rewrite items", async (change, snapshot) => {
      const stored = (await snapshot?.list(ITEMS)) ?? [];
      let items: Buffer[] = [...stored];
      for (const { callId, record } of replacements) items = withReplacement(items, callId, record);
      replace(change, stored, items);
    });
  }

  /** Applies a change once: with the same `operationId` again, it does nothing. */
  async applyHistoryTransaction({ operationId, transaction }: SessionHistoryTransactionArgs): Promise<void> {
    if (typeof operationId !== "string" || operationId.trim() === "") {
      throw new InvalidInput("the operationId of a history transaction is empty");
    }
    const operation = createHash("sha256").update(operationId).digest("hex");
    const [expected, added] =
      transaction.type === "append_items"
        ? [[], transaction.items.map(itemToJson)]
        : [transaction.expectedSuffix.map(itemToJson), transaction.replacement.map(itemToJson)];
    const digest = digestOf(transaction.type, expected, added);
    await this.#change(titleOf(added.length), async (change, snapshot) => {
      const applied = await snapshot?.get(OPERATIONS, operation);
      if (applied) {
        if (applied.equals(digest)) return;
        throw new InvalidInput("the operationId was used before, with another history transaction");
      }
      const count = snapshot ? await snapshot.count(ITEMS) : 0;
      const start = count - expected.length;
      const suffix = start < 0 ? undefined : ((await snapshot?.list(ITEMS, start)) ?? []);
      if (!suffix || !isSame(suffix, expected)) {
        throw new InvalidInput("the stored items do not end with the expected ones: read them again");
      }
      if (expected.length > 0) change.cut(ITEMS, start);
      push(change, added);
      change.put(OPERATIONS, operation, digest);
    });
  }

  /** Begins a branch before the user's message of a turn, from 1, and switches to it. Returns its name. */
  createBranchFromTurn(turn: number, branchId?: string): Promise<string> {
    return this.#inOrder(async () => {
      const snapshot = await this.store.newest(this.#name());
      const start = (await turnsOf(snapshot))[turn - 1];
      if (!snapshot || start === undefined) throw new InvalidInput(`there is no turn ${turn}`);
      const name = branchId ?? freeName(await this.#branches(), `turn-${turn}`);
      const change = this.store.begin(this.#name(name), `branch ${name}`, { expect: null });
      await change.goOnFrom(snapshot.id);
      change.cut(ITEMS, start);
      try {
        await change.commit();
      } catch (error) {
        if (error instanceof Conflict) throw new InvalidInput(`the branch ${name} exists already`);
        throw error;
      }
      this.#branch = name;
      return name;
    });
  }

  /** Continues in another branch. */
  async switchToBranch(branchId: string): Promise<void> {
    await this.#inOrder(async () => {
      if (branchId !== MAIN && !(await this.#branches()).includes(branchId)) {
        throw new InvalidInput(`there is no branch ${branchId}`);
      }
      this.#branch = branchId;
    });
  }

  /** Deletes a branch: the current one only with `force`, and the main one never. */
  async deleteBranch(branchId: string, { force = false }: { force?: boolean } = {}): Promise<void> {
    await this.#inOrder(async () => {
      if (branchId === MAIN) throw new InvalidInput("the main branch cannot be deleted");
      if (!(await this.#branches()).includes(branchId)) throw new InvalidInput(`there is no branch ${branchId}`);
      if (branchId === this.#branch && !force) {
        throw new InvalidInput("this is the current branch: switch to another one, or set force");
      }
      const change = this.store.begin(this.#name(branchId), `delete ${branchId}`);
      change.delete();
      await change.commit();
      if (branchId === this.#branch) this.#branch = MAIN;
    });
  }

  /** The branches of the conversation. */
  listBranches(): Promise<SessionBranch[]> {
    return this.#inOrder(async () => {
      const found: SessionBranch[] = [];
      for (const branchId of await this.#branches()) {
        const snapshot = await this.store.newest(this.#name(branchId));
        found.push({
          branchId,
          itemCount: snapshot ? await snapshot.count(ITEMS) : 0,
          userTurns: (await turnsOf(snapshot)).length,
          isCurrent: branchId === this.#branch,
        });
      }
      return found;
    });
  }

  #name(branch = this.#branch): string {
    return `${sessionName(this.sessionId)}/${sessionName(branch)}`;
  }

  async #branches(): Promise<string[]> {
    const names = await this.store.branches(sessionName(this.sessionId));
    return names.map((name) => partsOf(name.slice(name.indexOf("/") + 1))[0]);
  }

  #inOrder<T>(work: () => T | Promise<T>): Promise<T> {
    return this.#turns.take(this.sessionId, work);
  }

  /** Changes the newest snapshot, again for as long as other writers are faster. */
  #change<T>(title: string, fill: (change: Transaction, snapshot: Snapshot | null) => Promise<T>): Promise<T> {
    return this.#inOrder(async () => {
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
        const snapshot = await this.store.newest(this.#name());
        const change = this.store.begin(this.#name(), title, { expect: snapshot?.id ?? null });
        try {
          const result = await fill(change, snapshot);
          await change.commit();
          return result;
        } catch (error) {
          change.rollback();
          if (!(error instanceof Conflict)) throw error;
        }
      }
      throw new Conflict(`others are always faster on ${this.sessionId}`);
    });
  }
}

function titleOf(count: number): string {
  return `${count} item${count === 1 ? "" : "s"}`;
}

function push(change: Transaction, records: Records): void {
  for (const record of records) change.pushMessage(roleOf(itemFromJson(record)), record, { format: FORMAT });
}

/** Replaces the stored items from the first that differs. */
function replace(change: Transaction, stored: Records, records: Records): void {
  const changed = stored.findIndex((record, at) => !records[at]?.equals(record));
  const same = changed < 0 ? stored.length : changed;
  if (same < stored.length) change.cut(ITEMS, same);
  push(change, records.slice(same));
}

function roleOf(item: AgentInputItem): string {
  if ("role" in item && item.role) return item.role;
  return String(item.type).endsWith("_result") || String(item.type).endsWith("_output") ? "tool" : "assistant";
}

/** Puts a replacement where the first call with this id is, and removes the others. */
function withReplacement(items: Records, callId: string, replacement: Buffer): Buffer[] {
  let isReplaced = false;
  return items.flatMap((record) => {
    const item = itemFromJson(record);
    if (item.type !== "function_call" || item.callId !== callId) return [record];
    if (isReplaced) return [];
    isReplaced = true;
    return [replacement];
  });
}

/** Compares items by their content, because other programs may order keys differently. */
function isSame(first: Records, second: Records): boolean {
  return first.length === second.length && first.every((record, at) => {
    const other = second[at];
    return other !== undefined && (record.equals(other) || canonical(record) === canonical(other));
  });
}

function digestOf(type: string, expected: Records, added: Records): Buffer {
  const text = JSON.stringify([type, expected.map(canonical), added.map(canonical)]);
  return createHash("sha256").update(text).digest();
}

/** The JSON of a record with its keys in order. */
function canonical(record: Buffer): string {
  return JSON.stringify(JSON.parse(record.toString()), (_, value: unknown) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

/** The places of the user's messages, with which turns begin. */
async function turnsOf(snapshot: Snapshot | null): Promise<number[]> {
  const messages = (await snapshot?.messages()) ?? [];
  return messages.flatMap((message, at) => (message.role === "user" ? [at] : []));
}

function freeName(taken: string[], name: string): string {
  let free = name;
  for (let number = 2; taken.includes(free); number += 1) free = `${name}-${number}`;
  return free;
}

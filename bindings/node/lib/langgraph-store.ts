/** Long-term memory of LangGraph: `TurntreeStore`, which `turntree/langgraph` offers. */

import { isDeepStrictEqual } from "node:util";
import {
  BaseStore,
  type GetOperation,
  type Item,
  type ListNamespacesOperation,
  type MatchCondition,
  type Operation,
  type OperationResults,
  type PutOperation,
  type SearchItem,
  type SearchOperation,
} from "@langchain/langgraph-checkpoint";
import { Conflict, InvalidInput, type Snapshot, Store } from "turntree";
import { fromJson, toJson } from "./json.js";
import { partsOf, quote, sessionName } from "./names.js";
import { own } from "./own.js";

/** How often items are put again when others are faster. */
const MAX_ATTEMPTS = 1000;

/** The session of a store's long-term memory. */
const MEMORY = "langgraph-store";

interface StoredItem {
  value: Record<string, unknown>;
  created_at: string;
  updated_at: string;
}

/**
 * Long-term memory of graphs in a turntree store: every item is an entry of the section `memory` of one session.
 * There is no index of vectors: a search with a query returns the items that have a word of it, the best first,
 * with the score of BM25.
 */
export class TurntreeStore extends BaseStore {
  readonly #session: string;
  #isOpenedHere = false;

  constructor(
    readonly store: Store,
    options: { session?: string } = {},
  ) {
    super();
    this.#session = sessionName(options.session ?? MEMORY);
  }

  /** Long-term memory in the store in a directory, which is made if nothing is there. */
  static async open(path: string | URL, options: { session?: string } = {}): Promise<TurntreeStore> {
    const memory = new TurntreeStore(await Store.open(path, { actor: "langgraph" }), options);
    memory.#isOpenedHere = true;
    return memory;
  }

  /** Closes the store if `open` opened it: a store that was passed in belongs to its owner. */
  async close(): Promise<void> {
    if (this.#isOpenedHere) await this.store.close();
  }

  override async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    const snapshot = await this.store.newest(this.#session);
    const puts = operations.filter(isPut);
    const answers = operations.map((one) => (isPut(one) ? undefined : answer(snapshot, one)));
    const results = await Promise.all(answers);
    if (puts.length > 0) await this.#put(puts);
    return results as OperationResults<Op>;
  }

  async #put(puts: PutOperation[]): Promise<void> {
    const now = new Date().toISOString();
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      const snapshot = await this.store.newest(this.#session);
      const expect = snapshot?.id ?? null;
      const change = this.store.begin(this.#session, `${puts.length} items`, { expect });
      for (const { namespace, key, value } of puts) {
        const name = itemKey(namespace, key);
        if (value === null) {
          change.remove("memory", name);
          continue;
        }
        const old = snapshot && (await snapshot.get("memory", name));
        const created = old ? (fromJson(old) as StoredItem).created_at : now;
        change.put("memory", name, toJson({ value, created_at: created, updated_at: now }));
      }
      try {
        await change.commit();
        return;
      } catch (error) {
        if (!(error instanceof Conflict)) throw error;
      }
    }
    throw new Conflict("others are always faster on the long-term memory");
  }
}

function isPut(operation: Operation): operation is PutOperation {
  return "value" in operation;
}

async function answer(
  snapshot: Snapshot | null,
  operation: Exclude<Operation, PutOperation>,
): Promise<Item | null | SearchItem[] | string[][]> {
  if ("namespacePrefix" in operation) return snapshot ? search(snapshot, operation) : [];
  if ("key" in operation) return snapshot && get(snapshot, operation);
  return snapshot ? listNamespaces(snapshot, operation) : [];
}

async function get(snapshot: Snapshot, { namespace, key }: GetOperation): Promise<Item | null> {
  const stored = await snapshot.get("memory", itemKey(namespace, key));
  return stored && itemOf(namespace, key, stored);
}

async function search(snapshot: Snapshot, operation: SearchOperation): Promise<SearchItem[]> {
  const { namespacePrefix, filter = {}, limit = 10, offset = 0, query } = operation;
  let found: SearchItem[] = [];
  for (const [stored, content] of await snapshot.scan("memory", prefixOf(namespacePrefix))) {
    const item = itemOf(...itemName(stored), content);
    if (Object.entries(filter).every(([field, wanted]) => matches(own(item.value, field), wanted))) found.push(item);
  }
  if (query?.trim()) found = ranked(found, query);
  return found.slice(offset, offset + limit);
}

/** The items that have a word of the query, by BM25 with its usual parameters 1.2 and 0.75. */
function ranked(items: SearchItem[], query: string): SearchItem[] {
  const wanted = new Set(wordsOf(query));
  const holders = new Map<string, number>();
  const counted = items.map((item) => {
    const words = wordsOf(item.value);
    const counts = new Map<string, number>();
    for (const word of words) if (wanted.has(word)) counts.set(word, (counts.get(word) ?? 0) + 1);
    for (const word of counts.keys()) holders.set(word, (holders.get(word) ?? 0) + 1);
    return { item, counts, length: words.length };
  });
  const usual = counted.reduce((sum, { length }) => sum + length, 0) / Math.max(1, items.length) || 1;
  const scored = counted.map(({ item, counts, length }) => {
    let score = 0;
    for (const [word, times] of counts) {
      const holding = holders.get(word) ?? 0;
      const rarity = Math.log(1 + (items.length - holding + 0.5) / (holding + 0.5));
      score += (rarity * times * 2.2) / (times + 1.2 * (0.25 + (0.75 * length) / usual));
    }
    return { ...item, score };
  });
  return scored.filter(({ score }) => score > 0).sort((a, b) => b.score - a.score);
}

/** The words of all texts in a value. */
function wordsOf(value: unknown): string[] {
  if (typeof value === "string") return value.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
  if (typeof value === "number") return [String(value)];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(wordsOf) : [];
}

const OPERATORS: Record<string, (value: unknown, wanted: unknown) => boolean> = {
  $eq: isDeepStrictEqual,
  $ne: (value, wanted) => !isDeepStrictEqual(value, wanted),
  $gt: (value, wanted) => value != null && Number(value) > Number(wanted),
  $gte: (value, wanted) => value != null && Number(value) >= Number(wanted),
  $lt: (value, wanted) => value != null && Number(value) < Number(wanted),
  $lte: (value, wanted) => value != null && Number(value) <= Number(wanted),
};

function matches(value: unknown, wanted: unknown): boolean {
  const conditions = typeof wanted === "object" && wanted !== null ? Object.entries(wanted) : [];
  if (!conditions.some(([name]) => name.startsWith("$"))) return isDeepStrictEqual(value, wanted);
  return conditions.every(([name, operand]) => {
    const holds = own(OPERATORS, name);
    if (!holds) throw new InvalidInput(`unknown operator: ${name}`);
    return holds(value, operand);
  });
}

async function listNamespaces(snapshot: Snapshot, operation: ListNamespacesOperation): Promise<string[][]> {
  const { matchConditions = [], maxDepth, limit = 100, offset = 0 } = operation;
  const found = new Map<string, string[]>();
  for (const key of await snapshot.keys("memory")) {
    const [namespace] = itemName(key);
    if (!matchConditions.every((condition) => fits(namespace, condition))) continue;
    const cut = namespace.slice(0, maxDepth ?? namespace.length);
    found.set(JSON.stringify(cut), cut);
  }
  const sorted = [...found.keys()].sort().map((name) => found.get(name) as string[]);
  return sorted.slice(offset, offset + limit);
}

function fits(namespace: string[], { matchType, path }: MatchCondition): boolean {
  if (path.length > namespace.length) return false;
  const start = matchType === "prefix" ? 0 : namespace.length - path.length;
  return path.every((wanted, at) => wanted === "*" || wanted === namespace[start + at]);
}

function prefixOf(namespace: string[]): string {
  return namespace.map((part) => `${quote(part)}/`).join("");
}

function itemKey(namespace: string[], key: string): string {
  return `${prefixOf(namespace)}#${quote(key)}`;
}

function itemName(stored: string): [namespace: string[], key: string] {
  const parts = stored.split("/");
  const name = parts.pop() as string;
  return [parts.map((part) => partsOf(part)[0]), partsOf(name.slice(1))[0]];
}

function itemOf(namespace: string[], key: string, stored: Buffer): Item {
  const { value, created_at, updated_at } = fromJson(stored) as StoredItem;
  return { namespace, key, value, createdAt: new Date(created_at), updatedAt: new Date(updated_at) };
}

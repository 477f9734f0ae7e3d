/** Items of lists that LangGraph keeps: what changed of them, and messages as records that people read. */

import { isDeepStrictEqual } from "node:util";
import {
  AIMessage,
  type BaseMessage,
  HumanMessage,
  SystemMessage,
  ToolMessage,
  type UsageMetadata,
  isBaseMessage,
} from "@langchain/core/messages";
import { toJson } from "./json.js";
import { own } from "./own.js";

export const ROLES: Record<string, string> = { human: "user", ai: "assistant", system: "system", tool: "tool" };

type Fields = Record<string, unknown>;

const CLASSES: Record<string, new (fields: never) => BaseMessage> = {
  human: HumanMessage,
  ai: AIMessage,
  system: SystemMessage,
  tool: ToolMessage,
};

const UNKNOWN = Symbol("a look that cannot be copied");

/** From a place to the place behind the last one. */
export type Range = [start: number, stop: number];

/** A list as it was last seen: its objects, how they looked then, and their places among the items. */
export class SeenList {
  objects: unknown[] = [];
  places: number[] = [];
  #looks: unknown[] = [];
  hasOnlyMessages = true;

  add(value: unknown, place: number): void {
    this.objects.push(value);
    this.places.push(place);
    this.#looks.push(lookOf(value));
    this.hasOnlyMessages &&= isBaseMessage(value);
  }

  /** Takes an unchanged item of another list. */
  take(other: SeenList, at: number): void {
    const value = other.objects[at];
    this.objects.push(value);
    this.places.push(other.places[at] as number);
    this.#looks.push(other.#looks[at]);
    this.hasOnlyMessages &&= isBaseMessage(value);
  }

  /** The first so many items, as another list. */
  first(count: number): SeenList {
    const part = new SeenList();
    part.objects = this.objects.slice(0, count);
    part.places = this.places.slice(0, count);
    part.#looks = this.#looks.slice(0, count);
    const isWhole = count === this.objects.length;
    part.hasOnlyMessages = isWhole ? this.hasOnlyMessages : part.objects.every(isBaseMessage);
    return part;
  }

  /** True if an object is unchanged since it was stored or read. */
  isSame(at: number): boolean {
    const look = this.#looks[at];
    if (look === UNKNOWN) return false;
    const value = this.objects[at];
    const compare = () => (isBaseMessage(value) ? isUnchanged(value, look as Fields) : isEqual(value, look));
    return tried(compare, false);
  }

  /** Counts the unchanged items at the start of the first `count`. */
  sameItems(count: number): number {
    let at = 0;
    while (at < count && this.isSame(at)) at += 1;
    return at;
  }

  get ranges(): Range[] {
    return rangesOf(this.places);
  }
}

/** How many items both begin with alike. */
export function sameStart<T>(one: readonly T[], other: readonly T[]): number {
  const count = Math.min(one.length, other.length);
  let at = 0;
  while (at < count && one[at] === other[at]) at += 1;
  return at;
}

/** Places as ranges: a list that only grew is one. */
export function rangesOf(places: Iterable<number>): Range[] {
  const ranges: Range[] = [];
  for (const place of places) {
    const last = ranges.at(-1);
    if (last?.[1] === place) last[1] += 1;
    else ranges.push([place, place + 1]);
  }
  return ranges;
}

/** Whether a message still has the fields that it had. A turn asks this of every message, three times. */
function isUnchanged(message: BaseMessage, look: Fields): boolean {
  const kwargs = message.lc_kwargs as Fields;
  let count = 0;
  for (const key in kwargs) {
    const value = key in message ? (message as unknown as Fields)[key] : kwargs[key];
    if (value === undefined) continue;
    if (!isEqual(value, look[key])) return false;
    count += 1;
  }
  return count === Object.keys(look).length;
}

/** What a message is made of, as LangChain's own serializer takes it. */
function fieldsOf(message: BaseMessage): Fields {
  const fields: Fields = {};
  for (const [key, given] of Object.entries(message.lc_kwargs as Fields)) {
    const value = key in message ? (message as unknown as Fields)[key] : given;
    if (value !== undefined) fields[key] = value;
  }
  return fields;
}

function lookOf(value: unknown): unknown {
  return tried(() => copied(isBaseMessage(value) ? fieldsOf(value) : value), UNKNOWN);
}

/** What `look` finds, or `otherwise` where it throws: values nest deeply, contain themselves, and have getters. */
function tried<T>(look: () => T, otherwise: T): T {
  try {
    return look();
  } catch {
    return otherwise;
  }
}

/** A copy of what JSON has; the symbol for anything else. */
function copied(value: unknown): unknown {
  if (value === null || typeof value !== "object") return typeof value === "function" ? UNKNOWN : value;
  if (Array.isArray(value)) {
    const items = value.map(copied);
    return items.includes(UNKNOWN) ? UNKNOWN : items;
  }
  if (!isPlain(value)) return UNKNOWN;
  const copy: Fields = {};
  for (const [key, inner] of Object.entries(value)) {
    const taken = copied(inner);
    if (taken === UNKNOWN || key === "__proto__") return UNKNOWN;
    copy[key] = taken;
  }
  return copy;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Whether a value still is what was copied of it. */
function isEqual(value: unknown, look: unknown): boolean {
  if (Object.is(value, look)) return true;
  if (typeof value !== "object" || typeof look !== "object" || value === null || look === null) return false;
  if (Array.isArray(value) || Array.isArray(look)) {
    return (
      Array.isArray(value) &&
      Array.isArray(look) &&
      value.length === look.length &&
      value.every((item, at) => isEqual(item, look[at]))
    );
  }
  if (!isPlain(value)) return false;
  let count = 0;
  for (const key in value) {
    const is = Object.hasOwn(look, key) && isEqual((value as Fields)[key], (look as Fields)[key]);
    if (!is) return false;
    count += 1;
  }
  return count === Object.keys(look).length;
}

/** Whether JSON gives a value back as it is. */
function isJson(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0);
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value !== "object") return false;
  if (Array.isArray(value)) return value.every(isJson);
  return isPlain(value) && Object.values(value).every(isJson);
}

function isDefault(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

/** A message as OpenAI's interface has it, with all that LangChain knows of it beside. */
function recordOf(message: BaseMessage): Buffer {
  const { content: _, type: __, ...fields } = fieldsOf(message);
  const { content } = message;
  const record: Fields = { role: own(ROLES, message.type) ?? message.type, content };
  const calls = (message as AIMessage).tool_calls;
  if (Array.isArray(calls) && calls.length > 0) {
    record["tool_calls"] = calls.map((call) => ({
      id: call.id,
      type: "function",
      function: { name: call.name, arguments: JSON.stringify(call.args) },
    }));
  }
  if (message.type === "tool") {
    const { tool_call_id, status } = message as ToolMessage;
    record["tool_call_id"] = tool_call_id;
    if (status === "error") record["error"] = true;
  }
  const model = (message.response_metadata as Fields | undefined)?.["model_name"];
  if (model) record["model"] = model;
  const usage = (message as AIMessage).usage_metadata as UsageMetadata | undefined;
  if (usage) {
    record["usage"] = {
      prompt_tokens: usage.input_tokens,
      completion_tokens: usage.output_tokens,
      prompt_tokens_details: { cached_tokens: usage.input_token_details?.cache_read ?? 0 },
    };
  }
  const kept = Object.entries(fields).filter(([, value]) => !isDefault(value));
  record["langchain"] = { type: message.type, ...Object.fromEntries(kept) };
  return toJson(record);
}

/** The record of a message for people, whatever it has in it. */
export function shownRecordOf(message: BaseMessage): Buffer {
  const { type, text } = message;
  return tried(() => recordOf(message), toJson({ role: own(ROLES, type) ?? type, content: text }));
}

/** The record of a message, if nothing of it is lost so. */
export function losslessRecordOf(message: BaseMessage): Buffer | null {
  return tried(() => {
    const fields = fieldsOf(message);
    if (message.constructor !== own(CLASSES, message.type) || !isJson(fields)) return null;
    const record = recordOf(message);
    return isDeepStrictEqual(fieldsOf(messageOf(record)), fields) ? record : null;
  }, null);
}

/** The message of a record, of any writer. */
export function messageOf(record: Uint8Array): BaseMessage {
  const { content, langchain } = JSON.parse(Buffer.from(record).toString()) as Fields & { langchain: Fields };
  const { type, ...fields } = langchain;
  return newMessage(type as string, { ...fields, content });
}

export function newMessage(type: string, fields: Fields): BaseMessage {
  const Class = own(CLASSES, type);
  if (!Class) throw new TypeError(`no message is of the type ${type}`);
  return new Class(fields as never);
}

/**
 * Items of the OpenAI Agents SDK as JSON: bytes, such as those of images, are written as
 * `{"$bytes": BASE64}`.
 */

import type { AgentInputItem } from "@openai/agents-core";
import { toJson } from "./json.js";

const BYTES = "$bytes";

/** The only key of an object that looks like bytes: it is written with another `$` before it. */
const LIKE_BYTES = /^\$+bytes$/;

/** An item as a record. Throws a `TypeError` for a value that JSON does not have. */
export function itemToJson(item: AgentInputItem): Buffer {
  return toJson(written(item));
}

/** The item of a record. */
export function itemFromJson(record: Buffer): AgentInputItem {
  return JSON.parse(record.toString(), (_, value: unknown) => {
    const [key, field] = onlyField(value) ?? ["", undefined];
    if (key === BYTES) return typeof field === "string" ? new Uint8Array(Buffer.from(field, "base64")) : value;
    return LIKE_BYTES.test(key) ? { [key.slice(1)]: field } : value;
  }) as AgentInputItem;
}

function written(value: unknown): unknown {
  if (value instanceof Uint8Array) return { [BYTES]: Buffer.from(value).toString("base64") };
  if (Array.isArray(value)) return value.map(written);
  if (typeof value !== "object" || value === null) return value;
  const [key, field] = onlyField(value) ?? [""];
  if (LIKE_BYTES.test(key)) return { [`$${key}`]: written(field) };
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, written(field)]));
}

/** The field of an object that has no other. */
function onlyField(value: unknown): [string, unknown] | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const fields = Object.entries(value);
  return fields.length === 1 ? fields[0] : undefined;
}

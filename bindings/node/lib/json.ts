/** JSON as it is stored. */

/** A value as JSON. Throws a `TypeError` for what has none. */
export function toJson(value: unknown): Buffer {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError(`JSON has no ${typeof value}`);
  return Buffer.from(text);
}

/** The value of stored JSON. */
export function fromJson(stored: Uint8Array): unknown {
  return JSON.parse(Buffer.from(stored.buffer, stored.byteOffset, stored.byteLength).toString());
}

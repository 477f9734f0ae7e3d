/** Arguments as the native library wants them: what is of another type is a `TypeError` here. */

import { types } from "node:util";
import { InvalidInput } from "./errors.cjs";

/** Text that UTF-8 has. */
export function text(name: string, value: unknown): string {
  if (typeof value !== "string") throw wrong(name, "a string", value);
  if (!value.isWellFormed()) throw new InvalidInput(`${name} has half of a surrogate pair`);
  return value;
}

export function optionalText(name: string, value: unknown): string | undefined {
  return value == null ? undefined : text(name, value);
}

/** Bytes that nothing changes while they are taken. */
export function bytes(name: string, value: unknown): Uint8Array {
  if (!types.isUint8Array(value)) throw wrong(name, "a Uint8Array", value);
  return types.isSharedArrayBuffer(value.buffer) ? value.slice() : value;
}

export function optionalBytes(name: string, value: unknown): Uint8Array | undefined {
  return value == null ? undefined : bytes(name, value);
}

/** A number of things. */
export function count(name: string, value: unknown): number {
  if (typeof value !== "number") throw wrong(name, "a number", value);
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new InvalidInput(`${name} is ${value}: expected a whole number from 0`);
  }
  return value;
}

export function optionalCount(name: string, value: unknown): number | undefined {
  return value == null ? undefined : count(name, value);
}

export function flag(name: string, value: unknown): boolean {
  if (typeof value !== "boolean") throw wrong(name, "a boolean", value);
  return value;
}

/** The error for a value of another type. */
export function wrong(name: string, expected: string, value: unknown): TypeError {
  const found = value === null ? "null" : typeof value;
  return new TypeError(`${name}: expected ${expected}, found ${found}`);
}

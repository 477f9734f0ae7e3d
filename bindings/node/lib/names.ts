/** Names of sessions and keys from any text, and back: what a name cannot have is written as `%XX`. */

import { InvalidInput } from "turntree";

/** Stands between the parts of a session's name. */
const SEPARATOR = "+";

const PLAIN = "-_.@=,()";

/** Writes `text` so that it can be a part of a session's name or of a key. */
export function quote(text: string, plain: string = PLAIN): string {
  if (!text.isWellFormed()) throw new InvalidInput("a name has half of a surrogate pair");
  let quoted = "";
  for (const char of text) {
    const isPlain = plain.includes(char) || /[\p{L}\p{N}]/u.test(char);
    quoted += isPlain ? char : escaped(char);
  }
  return quoted;
}

function escaped(char: string): string {
  return Array.from(Buffer.from(char), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join("");
}

/** The name of a session that these parts name, which {@link partsOf} gives back. */
export function sessionName(...parts: string[]): string {
  let name = parts.map((part) => quote(part)).join(SEPARATOR);
  if (name === "@" || name.includes("@{")) name = name.replaceAll("@", "%40");
  // Names of branches have these rules, so that each can be a ref of git.
  if (name.includes("..") || name.endsWith(".") || name.endsWith(".lock") || name.startsWith(".")) {
    name = name.replaceAll(".", "%2E");
  }
  if (name.startsWith("-")) name = `%2D${name.slice(1)}`;
  return name || "%00";
}

/** The parts that {@link sessionName} made a name of. */
export function partsOf(name: string): [string, ...string[]] {
  if (name === "%00") return [""];
  const [first = "", ...others] = name.split(SEPARATOR);
  return [unquoted(first), ...others.map(unquoted)];
}

function unquoted(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // A name that something else made.
  }
}

/** Reads MessagePack as LangGraph's serializer for Python writes it. */

import { newMessage } from "./langgraph-items.js";

/** An object of Python that has no counterpart here: its class, and what it was made of. */
export class PythonValue {
  constructor(
    readonly module: string,
    readonly name: string,
    readonly value: unknown,
  ) {}
}

const MESSAGES = new Map([
  ["HumanMessage", "human"],
  ["AIMessage", "ai"],
  ["SystemMessage", "system"],
  ["ToolMessage", "tool"],
]);

/** The value of these bytes. Throws a `RangeError` for what ends too early. */
export function fromMsgpack(bytes: Uint8Array): unknown {
  return new Reader(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)).value();
}

class Reader {
  #at = 0;

  constructor(readonly bytes: Buffer) {}

  value(): unknown {
    const byte = this.#number(1);
    if (byte < 0x80) return byte;
    if (byte < 0x90) return this.#map(byte & 0x0f);
    if (byte < 0xa0) return this.#array(byte & 0x0f);
    if (byte < 0xc0) return this.#take(byte & 0x1f).toString();
    if (byte >= 0xe0) return byte - 0x100;
    if (byte >= 0xd4 && byte <= 0xd8) return this.#extension(1 << (byte - 0xd4));
    switch (byte) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: return this.#take(this.#number(1));
      case 0xc5: return this.#take(this.#number(2));
      case 0xc6: return this.#take(this.#number(4));
      case 0xc7: return this.#extension(this.#number(1));
      case 0xc8: return this.#extension(this.#number(2));
      case 0xc9: return this.#extension(this.#number(4));
      case 0xca: return this.#take(4).readFloatBE();
      case 0xcb: return this.#take(8).readDoubleBE();
      case 0xcc: return this.#number(1);
      case 0xcd: return this.#number(2);
      case 0xce: return this.#number(4);
      case 0xcf: return small(this.#take(8).readBigUInt64BE());
      case 0xd0: return this.#take(1).readInt8();
      case 0xd1: return this.#take(2).readInt16BE();
      case 0xd2: return this.#take(4).readInt32BE();
      case 0xd3: return small(this.#take(8).readBigInt64BE());
      case 0xd9: return this.#take(this.#number(1)).toString();
      case 0xda: return this.#take(this.#number(2)).toString();
      case 0xdb: return this.#take(this.#number(4)).toString();
      case 0xdc: return this.#array(this.#number(2));
      case 0xdd: return this.#array(this.#number(4));
      case 0xde: return this.#map(this.#number(2));
      case 0xdf: return this.#map(this.#number(4));
      default: throw new RangeError(`MessagePack has no byte ${byte}`);
    }
  }

  #take(count: number): Buffer {
    if (this.#at + count > this.bytes.length) throw new RangeError("MessagePack ends too early");
    this.#at += count;
    return this.bytes.subarray(this.#at - count, this.#at);
  }

  #number(size: number): number {
    return this.#take(size).readUIntBE(0, size);
  }

  #array(count: number): unknown[] {
    const items: unknown[] = [];
    for (let at = 0; at < count; at += 1) items.push(this.value());
    return items;
  }

  #map(count: number): Record<string, unknown> {
    const entries: [string, unknown][] = [];
    for (let at = 0; at < count; at += 1) entries.push([String(this.value()), this.value()]);
    return Object.fromEntries(entries);
  }

  /** Objects of classes are extensions: the module, the class, and what it is made of. */
  #extension(count: number): unknown {
    const code = this.#number(1);
    const parts = fromMsgpack(this.#take(count));
    if (!Array.isArray(parts)) return new PythonValue("", `extension ${code}`, parts);
    const [module, name, value] = parts as [unknown, unknown, unknown];
    const type = String(module).startsWith("langchain_core.messages.") ? MESSAGES.get(String(name)) : undefined;
    if (type && typeof value === "object" && value !== null) {
      const { type: _, ...fields } = value as Record<string, unknown>;
      const given = Object.entries(fields).filter(([, field]) => field !== null);
      return newMessage(type, Object.fromEntries(given));
    }
    return new PythonValue(String(module), String(name), value);
  }
}

function small(number: bigint): number | bigint {
  return BigInt.asIntN(53, number) === number ? Number(number) : number;
}

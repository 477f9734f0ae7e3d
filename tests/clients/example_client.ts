// The client of examples/typescript: every part of it, and errors.
//
//   example_client.ts PROGRAM STORE WORKSPACE PAYLOAD

import { deepStrictEqual, ok, rejects, strictEqual } from "node:assert";
import { readFileSync } from "node:fs";
import { Turntree, TurntreeError } from "./turntree_client.ts";

const [program, store, workspace] = process.argv.slice(2) as [string, string, string];
const client = new Turntree(["--store", store, "--workspace", workspace], program);

const described = await client.call("describe");
ok((described.methods as { name: string }[]).some((method) => method.name === "snapshot"));
const append = { agents: { main: [{ role: "user", content: "é" }] } };
await client.call("snapshot", { message: "a question", append });
const set = { "memory/ä": { content: "é" } };
const taken = await client.call("snapshot", { message: "by the client", set });
const turns: number[] = [];
for await (const line of client.pages("log", "snapshots", { limit: 1 })) {
  turns.push(line.turn as number);
}
deepStrictEqual(turns, Array.from(turns, (_, index) => (taken.turn as number) - index));
strictEqual(turns.at(-1), 1);

const many = await Promise.all(Array.from({ length: 20 }, () => client.call("status")));
ok(many.every((status) => status.turn === taken.turn));
strictEqual((await client.restore("turn:1")).turn, (taken.turn as number) + 1);
strictEqual(readFileSync(`${workspace}/notes.txt`, "utf8"), "1\n");
await rejects(client.call("show", { revision: "nowhere" }), (error: unknown) => {
  return error instanceof TurntreeError && error.kind === "not-found" && error.code === -32006;
});
strictEqual(await client.close(), 0);
await rejects(client.call("status"));

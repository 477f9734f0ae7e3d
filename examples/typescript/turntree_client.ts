// A client of `turntree serve --stdio` in one file, for Node 20 and newer, without dependencies.
//
//   const store = new Turntree(["--workspace", "."]);
//   const question = { role: "user", content: "Why is it slow?" };
//   await store.call("snapshot", { message: "ask", append: { agents: { main: [question] } } });
//   await store.call("snapshot", { message: "a plan", set: { "scratchpad/plan": "measure" } });
//   for await (const snapshot of store.pages("log", "snapshots", { limit: 100 })) {
//     console.log(snapshot.turn, snapshot.message);
//   }
//   await store.close();
//
// docs/reference/serve.md says what the methods take and answer; so does `store.call("describe")`.

import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Fields = { [key: string]: Json };

interface RpcError {
  code: number;
  message: string;
  data?: { error: string; message: string } & Fields;
}

interface Waiting {
  resolve: (result: Fields) => void;
  reject: (error: Error) => void;
}

/** A call that was refused or failed; `kind` is that of the program, as `not-found`. */
export class TurntreeError extends Error {
  readonly code: number;
  readonly kind: string | undefined;
  readonly data: Fields;

  constructor(error: RpcError) {
    super(error.message);
    this.code = error.code;
    this.kind = error.data?.error;
    this.data = error.data ?? {};
  }
}

/** A server of one store. Calls may be made without waiting for each other. */
export class Turntree {
  private readonly server: ChildProcess;
  private readonly waiting = new Map<number, Waiting>();
  private readonly ended: Promise<number>;
  private last = 0;
  private failure: Error | undefined;

  /** Starts `program`; `options` are those of `turntree serve`, as ["--store", dir]. */
  constructor(options: string[] = [], program = "turntree") {
    this.server = spawn(program, ["serve", "--stdio", ...options], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.server.stdin!.on("error", () => {}); // the end of the server says it
    createInterface({ input: this.server.stdout! }).on("line", (line) => this.answered(line));
    this.ended = new Promise((resolve) => {
      this.server.on("error", (error) => this.fail(error, resolve));
      this.server.on("close", (code) => this.fail(new Error("the server has ended"), resolve, code));
    });
  }

  /** Calls a method and returns its answer. */
  call(method: string, params: Fields = {}): Promise<Fields> {
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      if (this.failure !== undefined) return reject(this.failure);
      this.waiting.set(id, { resolve, reject });
      this.server.stdin!.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
    });
  }

  /** Calls a method that answers with a list until its end, and yields the items. */
  async *pages(method: string, items: string, params: Fields = {}): AsyncGenerator<Fields> {
    for (let more: Fields | undefined = {}; more !== undefined; ) {
      const answer: Fields = await this.call(method, { ...params, ...more });
      yield* answer[items] as Fields[];
      const { next_cursor: cursor = null, next_offset: offset = null } = answer;
      more = cursor !== null ? { cursor } : offset !== null ? { offset } : undefined;
    }
  }

  /** Brings a snapshot back, with the plan of this very moment. */
  async restore(revision: string, params: Fields = {}): Promise<Fields> {
    const plan = await this.call("restore", { ...params, revision });
    return this.call("restore", { ...params, revision, plan_id: plan.plan_id ?? null });
  }

  /** Ends the server once all is answered, and returns its exit code. */
  close(): Promise<number> {
    this.server.stdin!.end();
    return this.ended;
  }

  private answered(line: string): void {
    const { id, result, error } = JSON.parse(line) as { id: number; result?: Fields; error?: RpcError };
    const waiting = this.waiting.get(id);
    this.waiting.delete(id);
    if (error !== undefined) waiting?.reject(new TurntreeError(error));
    else waiting?.resolve(result ?? {});
  }

  private fail(error: Error, resolve: (code: number) => void, code: number | null = null): void {
    this.failure ??= error;
    for (const { reject } of this.waiting.values()) reject(error);
    this.waiting.clear();
    resolve(code ?? -1);
  }
}

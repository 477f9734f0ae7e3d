/**
 * Keys of encrypted stores: `Store.open(path, { key: await unwrap(path) })`.
 *
 * The key of a store is wrapped for each who may have it, in files in the format of age, which the package
 * `age-encryption` reads.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, readdir } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, join, parse } from "node:path";
import { fileURLToPath } from "node:url";
import { Encrypted } from "turntree";

/** What opens a store: by default what opens it for the program. */
export interface UnwrapOptions {
  /** A file with secret keys. */
  identity?: string | URL;
  /** A passphrase, which takes a second or more, in which Node does nothing else. */
  passphrase?: string;
}

/** A way to what a file of age holds: undefined where it is not for this one. */
type Opener = (wrapped: Uint8Array) => Promise<Uint8Array | undefined>;

/**
 * The key of the store in a directory, by the secret keys in the file `identity`, or by a `passphrase`. With
 * neither, it is looked for as the program does: in the files that `TURNTREE_IDENTITY` names, in
 * `turntree/identity.txt` below the directory of settings, in what `TURNTREE_IDENTITY_COMMAND` prints, which
 * is asked where no file opens the store, and by `TURNTREE_PASSPHRASE`.
 *
 * Rejects with `Encrypted` when nothing opens it. The key opens everything: keep it in memory only.
 */
export async function unwrap(path: string | URL, options: UnwrapOptions = {}): Promise<Buffer> {
  const folder = textOf(path);
  const wrapped = await wrappedKeys(folder);
  for await (const open of openers(options)) {
    for (const { content } of wrapped) {
      const key = await open(content);
      if (key) return Buffer.from(key);
    }
  }
  const holders = [...new Set(wrapped.map(({ holder }) => holder))].join(", ") || "no holder";
  throw new Encrypted(`the key of ${folder} is wrapped for ${holders}, and nothing at hand opens it`);
}

async function* openers({ identity, passphrase }: UnwrapOptions): AsyncGenerator<Opener> {
  const isOwn = identity === undefined && passphrase === undefined;
  const files = identity === undefined ? [] : [await readFile(identity, "utf8")];
  yield* byKeys(isOwn ? await ownFiles() : files);
  const { TURNTREE_IDENTITY_COMMAND: command, TURNTREE_PASSPHRASE: own } = process.env;
  if (isOwn && command) yield* byKeys([await printed(command)]);
  const phrase = isOwn ? own : passphrase;
  if (phrase) yield await byPassphrase(phrase);
}

async function* byKeys(texts: string[]): AsyncGenerator<Opener> {
  const lines = texts.flatMap((text) => text.split("\n"));
  const secrets = lines.filter((line) => line.startsWith("AGE-SECRET-KEY-"));
  if (secrets.length === 0) return;
  const { Decrypter } = await import("age-encryption");
  const decrypter = new Decrypter();
  for (const secret of secrets) decrypter.addIdentity(secret.trim());
  yield openerOf(decrypter);
}

async function byPassphrase(passphrase: string): Promise<Opener> {
  const { Decrypter } = await import("age-encryption");
  const decrypter = new Decrypter();
  decrypter.addPassphrase(passphrase);
  return openerOf(decrypter);
}

function openerOf(decrypter: { decrypt(file: Uint8Array): Promise<Uint8Array> }): Opener {
  // Whatever is wrong with a file, another one may be right.
  return (wrapped) => decrypter.decrypt(wrapped).catch(() => undefined);
}

/** The files of the wrapped key, with whom it is wrapped for, in order of names. */
async function wrappedKeys(folder: string): Promise<{ holder: string; content: Uint8Array }[]> {
  const keys = join(folder, "keys");
  const names = await readdir(keys).catch(() => []);
  const files = names.map((name) => parse(join(keys, name)));
  const wrapped = files.filter(({ ext }) => ext === ".age" || ext === ".copy");
  wrapped.sort((a, b) => (a.base < b.base ? -1 : 1));
  return Promise.all(
    wrapped.map(async ({ dir, base, name }) => ({ holder: name, content: await readFile(join(dir, base)) })),
  );
}

/** The files of the user's own secret keys. */
async function ownFiles(): Promise<string[]> {
  const named = (process.env["TURNTREE_IDENTITY"] ?? "").split(delimiter).filter(Boolean);
  const texts = await Promise.all(named.map((file) => readFile(file, "utf8")));
  const settings = process.env["XDG_CONFIG_HOME"] || join(homedir(), ".config");
  const own = join(settings, "turntree", "identity.txt");
  return [...texts, await readFile(own, "utf8").catch(absent)];
}

function absent(error: NodeJS.ErrnoException): string {
  if (error.code === "ENOENT" || error.code === "ENOTDIR") return "";
  throw error;
}

/** What a command of the shell prints. */
async function printed(command: string): Promise<string> {
  const shell = spawn("sh", ["-c", command], { stdio: ["ignore", "pipe", "inherit"] });
  const pieces: Buffer[] = [];
  shell.stdout.on("data", (piece: Buffer) => pieces.push(piece));
  const [code, signal] = await once(shell, "close");
  if (code !== 0) throw new Error(`TURNTREE_IDENTITY_COMMAND ended with ${code ?? signal}`);
  return Buffer.concat(pieces).toString();
}

function textOf(path: string | URL): string {
  return path instanceof URL ? fileURLToPath(path) : path;
}

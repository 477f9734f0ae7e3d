// Encrypted stores: the program makes one, Node opens it with a file of keys or a passphrase.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, test } from "node:test";
import { pathToFileURL } from "node:url";
import { Encrypted, InvalidInput, Store } from "turntree";
import { unwrap } from "turntree/keys";
import { newPlace, root } from "./place.mjs";

const PROGRAM = process.env.TURNTREE_PROGRAM;
const skip = PROGRAM && existsSync(PROGRAM) ? false : "TURNTREE_PROGRAM names no program that makes an encrypted store";
let path;
let settings;
beforeEach(() => {
  const place = newPlace();
  [path, settings] = [join(place, "store"), join(place, "settings")];
  for (const name of ["IDENTITY", "IDENTITY_COMMAND", "PASSPHRASE"]) delete process.env[`TURNTREE_${name}`];
  process.env.XDG_CONFIG_HOME = settings;
});

function program(store, ...words) {
  const ran = spawnSync(PROGRAM, ["--store", store, ...words], { encoding: "utf8", timeout: 120_000 });
  assert.equal(ran.status, 0, ran.stderr);
  return ran.stdout;
}

function encrypted(store, passphrase) {
  if (passphrase === undefined) return program(store, "init", "--encrypt");
  process.env.TURNTREE_PASSPHRASE = passphrase;
  program(store, "init", "--encrypt", "--passphrase");
  delete process.env.TURNTREE_PASSPHRASE;
}

async function writeAndRead(key) {
  const store = await Store.open(path, { key });
  await store.transact("task", "kept", (change) => change.put("kept", "a", Buffer.from("a secret of mine")));
  await store.close();
  const again = await Store.open(path, { key, create: false });
  assert.equal(String(await (await again.snapshot("task")).get("kept", "a")), "a secret of mine");
  await again.close();
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  assert.ok(files.length > 0);
  for (const file of files) {
    assert.ok(!readFileSync(join(file.parentPath ?? file.path, file.name)).includes("a secret of mine"), file.name);
  }
}

test("the own key opens a store as it does for the program", { skip }, async () => {
  encrypted(path);
  await writeAndRead(await unwrap(pathToFileURL(path)));
  const own = join(settings, "turntree", "identity.txt");
  await writeAndRead(await unwrap(path, { identity: own }));
  const moved = join(settings, "moved.txt");
  renameSync(own, moved);
  await assert.rejects(unwrap(path), Encrypted);
  process.env.TURNTREE_IDENTITY = moved;
  await writeAndRead(await unwrap(path));
  delete process.env.TURNTREE_IDENTITY;
  process.env.TURNTREE_IDENTITY_COMMAND = `cat '${moved}'`;
  await writeAndRead(await unwrap(path));
  process.env.TURNTREE_IDENTITY_COMMAND = "exit 3";
  await assert.rejects(unwrap(path), /TURNTREE_IDENTITY_COMMAND ended with 3/);
});

test("what the program wrote into an encrypted store is read and the other way round", { skip }, async () => {
  encrypted(path);
  program(path, "snapshot", "--session", "task", "-m", "by the program");
  const store = await Store.open(path, { key: await unwrap(path), create: false });
  const newest = await store.snapshot("task");
  assert.equal(newest.title, "by the program");
  await store.transact("task", "by Node", (change) => change.put("scratchpad", "plan", Buffer.from("read the tests")));
  await store.close();
  assert.equal(program(path, "cat", "task:scratchpad/plan"), "read the tests");
});

test("a passphrase opens a store", { skip }, async () => {
  encrypted(path, "open sesame");
  await writeAndRead(await unwrap(path, { passphrase: "open sesame" }));
  await assert.rejects(unwrap(path, { passphrase: "another" }), Encrypted);
  await assert.rejects(unwrap(path), { name: "Encrypted", message: /wrapped for .+, and nothing at hand/ });
  process.env.TURNTREE_PASSPHRASE = "open sesame";
  await writeAndRead(await unwrap(path));
});

test("without its key a store says that it is encrypted", { skip }, async () => {
  encrypted(path);
  const other = join(root, "other");
  encrypted(other, "x");
  for (const key of [undefined, await unwrap(other, { passphrase: "x" })]) {
    await assert.rejects(Store.open(path, { key }), { name: "Encrypted", kind: "encrypted", message: /encrypted/ });
  }
  await assert.rejects(Store.open(path, { key: Buffer.from("no key") }), InvalidInput);
  await assert.rejects(Store.open(path, { key: "no bytes" }), TypeError);
  const plain = await Store.open(join(root, "plain"), { key: await unwrap(path) });
  await plain.close();
});

test("a folder that is no store has no wrapped keys", async () => {
  await assert.rejects(unwrap(join(root, "none")), { name: "Encrypted", message: /wrapped for no holder/ });
});

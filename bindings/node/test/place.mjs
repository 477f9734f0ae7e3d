// A place on the disk for each test, gone when those of its file are over.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

/** The folder of all places of a file of tests. */
export const root = mkdtempSync(join(tmpdir(), "turntree-"));
after(() => rmSync(root, { recursive: true, force: true }));

let places = 0;

/** A path in `root` where nothing is yet. */
export function newPlace() {
  return join(root, String((places += 1)));
}

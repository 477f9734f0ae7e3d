// The examples of the README, as they are pasted.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const examples = [...readFileSync(join(here, "README.md"), "utf8").matchAll(/```js\n(.*?)```/gs)];
// Where the packages are found from.
const folder = mkdtempSync(join(here, "readme-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const SAYS = [
  "[ [ 'scratchpad/plan', 'changed' ] ]\nfast-forward\nmerge task/plan-b into task/main\nread the tests\n",
  "encrypted\n",
  "[ 'user', 'assistant' ]\n",
  "0 checkpoints copied\n",
  "[ { theme: 'dark' } ]\n",
  "message: { role: 'user', content: 'hi' }",
  "[ 'main', 'what-if' ]\n",
  "hello\n",
];

test("every example has what it says", () => assert.equal(examples.length, SAYS.length));

for (const [number, says] of SAYS.entries()) {
  test(`example ${number + 1} runs`, () => {
    const options = ["--input-type=module", "-e", examples[number][1]];
    const ran = spawnSync(process.execPath, options, { cwd: folder, encoding: "utf8", timeout: 60_000 });
    assert.equal(ran.status, 0, ran.stderr);
    assert.ok(ran.stdout.includes(says), ran.stdout);
  });
}

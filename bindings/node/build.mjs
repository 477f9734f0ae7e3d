// Builds what goes into the package: the native library of this machine, and JavaScript of both kinds.
//
// TURNTREE_PROFILE is the profile of cargo, `wheel` by default. TURNTREE_LIBRARY names a library that is
// built already; with `none` the package has no library, because packages for each system bring it.

import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const profile = process.env.TURNTREE_PROFILE ?? "wheel";

function run(command, ...options) {
  // What npm packs is told on the standard output, by npm alone.
  const done = spawnSync(command, options, { cwd: here, stdio: ["ignore", 2, 2] });
  if (done.error) throw done.error;
  if (done.status !== 0) process.exit(done.status ?? 1);
}

function builtLibrary() {
  run("cargo", "build", "--locked", "--profile", profile, "-p", "turntree-node");
  const target = process.env.CARGO_TARGET_DIR ?? join(here, "../../target");
  const names = { darwin: "libturntree_node.dylib", win32: "turntree_node.dll" };
  const name = names[process.platform] ?? "libturntree_node.so";
  return join(target, profile === "dev" ? "debug" : profile, name);
}

function compile(...options) {
  const tsc = createRequire(import.meta.url).resolve("typescript/package.json");
  run(process.execPath, join(dirname(tsc), "bin/tsc"), "-p", here, ...options);
}

rmSync(join(here, "native"), { recursive: true, force: true });
if (process.env.TURNTREE_LIBRARY !== "none") {
  const library = process.env.TURNTREE_LIBRARY ?? builtLibrary();
  mkdirSync(join(here, "native"), { recursive: true });
  copyFileSync(library, join(here, "native", `${process.platform}-${process.arch}.node`));
}

rmSync(join(here, "dist"), { recursive: true, force: true });
compile();
// The adapters once more for `import`, so that they use the framework as it is imported.
compile("--module", "esnext", "--moduleResolution", "bundler", "--outDir", "dist/esm");
writeFileSync(join(here, "dist/esm/package.json"), '{ "type": "module" }\n');

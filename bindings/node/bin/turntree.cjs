#!/usr/bin/env node
// Runs the program `turntree` of the package for this system.

"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const machine = `${process.platform}-${process.arch}`;
const name = process.platform === "win32" ? "turntree.exe" : "turntree";

function program() {
  try {
    return require.resolve(`@turntree/${machine}/bin/${name}`);
  } catch {
    console.error(
      `error: the package @turntree/${machine} is not installed: install turntree with its optional dependencies;` +
        " 'cargo install turntree-cli' builds the program for other systems",
    );
    process.exit(70);
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });
// The program gets signals of the terminal itself, and decides when it ends.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    if (signal !== "SIGINT") child.kill(signal);
  });
}
child.on("error", (error) => {
  console.error(`error: start ${child.spawnfile}: ${error.message}`);
  process.exit(70);
});
child.on("exit", (code, signal) => {
  process.exit(signal ? 128 + (constants.signals[signal] ?? 0) : code);
});

// Keeps the sessions of opencode: each time a session becomes idle, its new turns go into the store of turntree.
//
// Copy this file to ~/.config/opencode/plugin, or to .opencode/plugin of a project. The program turntree must be in PATH.

import { spawn } from "node:child_process";
import { homedir } from "node:os";
import { join } from "node:path";

const data = join(process.env.XDG_DATA_HOME || join(homedir(), ".local", "share"), "opencode");

// One at a time: a run imports everything that is new, so one more after the last event is enough.
let isRunning = false;
let isWanted = false;

function adopt(directory) {
  if (isRunning) {
    isWanted = true;
    return;
  }
  isRunning = true;
  // It outlives a client that ends after its last answer.
  const child = spawn("turntree", ["adopt", data], { cwd: directory, detached: true, stdio: "ignore" });
  const end = () => {
    isRunning = false;
    if (isWanted) {
      isWanted = false;
      adopt(directory);
    }
  };
  // Without the program there is nothing to do, and no reason to disturb the client.
  child.on("error", () => {
    isRunning = false;
    isWanted = false;
  });
  child.on("exit", end);
  child.unref();
}

export const Turntree = async ({ directory }) => ({
  event: async ({ event }) => {
    if (event.type === "session.idle") adopt(directory);
  },
});

// Keeps the sessions of pi: each time the agent has answered, its new turns go into the store of turntree.
//
// Copy this file to ~/.pi/agent/extensions. The program turntree must be in PATH.

import { spawn } from "node:child_process";

interface Context {
  cwd: string;
  sessionManager: { getSessionFile(): string | undefined };
}

interface Pi {
  on(event: "agent_end" | "session_shutdown", handler: (event: unknown, context: Context) => void): void;
}

function adopt(_: unknown, { cwd, sessionManager }: Context) {
  // A session that is not saved has no file.
  const file = sessionManager.getSessionFile();
  if (!file) return;
  // It outlives a client that ends after its last answer.
  const child = spawn("turntree", ["adopt", file], { cwd, detached: true, stdio: "ignore" });
  // Without the program there is nothing to do, and no reason to disturb the client.
  child.on("error", () => {});
  child.unref();
}

export default function (pi: Pi) {
  pi.on("agent_end", adopt);
  pi.on("session_shutdown", adopt);
}

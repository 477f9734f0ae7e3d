// LangGraph: the suite of its owners, all of it.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { validate } from "@langchain/langgraph-checkpoint-validation";
import { TurntreeSaver } from "turntree/langgraph";

const root = mkdtempSync(join(tmpdir(), "turntree-"));
let places = 0;

validate({
  checkpointerName: "turntree",
  createCheckpointer: () => TurntreeSaver.open(join(root, String((places += 1)))),
  destroyCheckpointer: (saver) => saver.close(),
  afterAll: () => rmSync(root, { recursive: true, force: true }),
});

// What TypeScript knows of the package where it is required.

import { Conflict, Store } from "turntree";
import { TurntreeSessionStore } from "turntree/claude";
import { TurntreeSaver } from "turntree/langgraph";

export async function open(path: string): Promise<[TurntreeSaver, TurntreeSessionStore]> {
  const store: Store = await Store.open(path);
  if (new Conflict("x").kind !== "conflict") throw new Error();
  return [new TurntreeSaver(store), new TurntreeSessionStore(store)];
}

/** The messages of a delta channel of LangGraph, as the writes at its checkpoints make them. */

import { type BaseMessage, coerceMessageLikeToMessage } from "@langchain/core/messages";
import { isDeltaSnapshot } from "@langchain/langgraph-checkpoint";

/** The id of a `RemoveMessage` that removes all messages. */
const REMOVE_ALL = "__remove_all__";
/** The key of an object, or the type of one, that replaces the whole value. */
const OVERWRITE = "__overwrite__";

/**
 * The messages of a delta channel at one checkpoint. Writes change them by the rules of `messagesStateReducer`,
 * which the reducers of LangGraph and deepagents follow.
 */
export class DeltaMessages {
  /** The checkpoint whose messages these are. */
  checkpoint: string | null = null;
  readonly messages: BaseMessage[] = [];

  constructor(seed: unknown) {
    if (seed !== undefined) this.apply(isDeltaSnapshot(seed) ? seed.value : seed);
  }

  /** Applies one write. Throws for values that are no messages. */
  apply(write: unknown): void {
    const [replaces, value] = overwriteOf(write);
    if (replaces) this.messages.length = 0;
    const added = Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
    for (const message of added.map((one) => coerceMessageLikeToMessage(one as never))) {
      const at = message.id === undefined ? -1 : this.messages.findLastIndex(({ id }) => id === message.id);
      if (message.type === "remove") {
        if (message.id === REMOVE_ALL) this.messages.length = 0;
        else if (at >= 0) this.messages.splice(at, 1);
      } else if (at >= 0) {
        this.messages[at] = message;
      } else {
        this.messages.push(message);
      }
    }
  }
}

/** Whether a write replaces the whole value, and the value that it has. */
function overwriteOf(write: unknown): [replaces: boolean, value: unknown] {
  if (typeof write !== "object" || write === null) return [false, write];
  const fields = write as Record<string, unknown>;
  if (OVERWRITE in fields) return [true, fields[OVERWRITE]];
  const isOne = fields["lg_name"] === "Overwrite" || fields["type"] === OVERWRITE;
  return isOne && "value" in fields ? [true, fields["value"]] : [false, write];
}

/** Work that waits for its turn: in order for each name, at once for others. */

/** Queues, one for each name that has work. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Does `work` after what was asked for under this name before it. */
  async take<T>(name: string, work: () => T | Promise<T>): Promise<T> {
    const before = this.#last.get(name);
    const turn = before ? before.then(work) : (async () => work())();
    const ended = turn.then(
      () => undefined,
      () => undefined,
    );
    this.#last.set(name, ended);
    try {
      return await turn;
    } finally {
      if (this.#last.get(name) === ended) this.#last.delete(name);
    }
  }
}

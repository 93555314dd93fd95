/** Work that must not overlap: each begins when the one before is done. */
export class Turns {
  private last: Promise<unknown> = Promise.resolve();

  async take<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.last.then(work);
    this.last = turn.catch(() => undefined);
    return turn;
  }

  /** The same work for all who ask while it waits for its turn: it has not looked at anything yet. */
  shared<T>(work: () => Promise<T>): () => Promise<T> {
    let waiting: Promise<T> | undefined;
    return async () => {
      waiting ??= this.take(async () => {
        waiting = undefined;
        return work();
      });
      return waiting;
    };
  }
}

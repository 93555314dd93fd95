import type { PreparedChange } from '../proxy/start-proxy.ts';

export type { PreparedChange } from '../proxy/start-proxy.ts';

export const NO_CHANGE: PreparedChange = { commit: () => undefined, abort: () => undefined };

/** Makes all of them ready, or none: rejects with the first failure. */
export async function prepareAll(
  preparations: readonly (() => Promise<PreparedChange>)[],
): Promise<PreparedChange> {
  const changes: PreparedChange[] = [];
  try {
    for (const prepare of preparations) changes.push(await prepare());
  } catch (failure) {
    for (const change of changes) change.abort();
    throw failure;
  }
  return {
    commit: () => {
      for (const change of changes) change.commit();
    },
    abort: () => {
      for (const change of changes) change.abort();
    },
  };
}

/** Work that must not overlap: each begins when the one before is done. */
export class SerialQueue {
  private last: Promise<unknown> = Promise.resolve();

  async run<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.last.then(work);
    this.last = turn.catch(() => undefined);
    return turn;
  }

  /** The same work for all who ask while it waits for its turn: it has not looked at anything yet. */
  coalesced<T>(work: () => Promise<T>): () => Promise<T> {
    let waiting: Promise<T> | undefined;
    return async () => {
      waiting ??= this.run(async () => {
        waiting = undefined;
        return work();
      });
      return waiting;
    };
  }
}

/** Something that is ready and not yet in use. Exactly one of these is called, once, and neither fails. */
export interface Change {
  commit(): void;
  abort(): void;
}

export const NO_CHANGE: Change = { commit: () => undefined, abort: () => undefined };

/** Makes all of them ready, or none: rejects with the first failure. */
export async function prepareAll(preparations: readonly (() => Promise<Change>)[]): Promise<Change> {
  const changes: Change[] = [];
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

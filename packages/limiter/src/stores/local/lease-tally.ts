/** What became of leased tokens in this process, over all keys. */
export interface LeaseTally {
  granted: number;
  spent: number;
  returned: number;
  /** On their way back: the store has not yet said whether it takes them. */
  returning: number;
  /** The most by which the store's clock was found ahead of the latest time that was thought possible. */
  clockErrorUs: number;
}

export function emptyTally(): LeaseTally {
  return { granted: 0, spent: 0, returned: 0, returning: 0, clockErrorUs: 0 };
}

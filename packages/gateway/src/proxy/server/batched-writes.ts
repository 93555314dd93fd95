/** A response that has something to send. */
export interface BatchedWriter {
  /** Never throws. */
  depart(): void;
}

/** The first of them must not wait for the work of hundreds. */
const MAX_TOGETHER = 32;

let waiting: BatchedWriter[] = [];

/**
 * Sends at the end of this turn of the event loop, when all that arrived together has been read. Every write that finds
 * its reader asleep has to wake it, which costs more than the write; of many in a row only the first does. Nobody waits
 * longer for it: a turn with nothing else to do ends at once.
 */
export function writeTogether(one: BatchedWriter): void {
  waiting.push(one);
  if (waiting.length === 1) setImmediate(departAll);
  else if (waiting.length >= MAX_TOGETHER) departAll();
}

function departAll(): void {
  const leaving = waiting;
  waiting = [];
  for (const one of leaving) one.depart();
}

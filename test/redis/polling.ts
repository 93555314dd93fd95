import { setTimeout as sleep } from 'node:timers/promises';
import { PATIENCE_MS } from '../patience.ts';
import { stopwatch } from './running-clock.ts';

const INTERVAL_MS = 5;

/**
 * Asks again and again until `check` answers true, and rejects when that takes too long. A check that rejects counts
 * as "not yet"; its last error becomes the cause.
 */
export async function eventually(
  what: string,
  check: () => boolean | Promise<boolean>,
  deadlineMs: number = PATIENCE_MS,
): Promise<void> {
  const watch = stopwatch();
  let cause: unknown;
  const holds = async (): Promise<boolean> => {
    try {
      const answer = await check();
      cause = undefined;
      return answer;
    } catch (error) {
      cause = error;
      return false;
    }
  };
  try {
    for (; watch.passedMs() < deadlineMs; await sleep(INTERVAL_MS)) {
      if (await holds()) return;
    }
  } finally {
    watch.stop();
  }
  throw new Error(`Waited ${deadlineMs} ms in vain until ${what}`, { cause });
}

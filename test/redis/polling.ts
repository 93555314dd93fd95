import { setTimeout as sleep } from 'node:timers/promises';

const INTERVAL_MS = 5;
const DEADLINE_MS = 20_000;

/**
 * Asks again and again until `check` answers true, and rejects when that takes too long. A check that rejects counts
 * as "not yet"; its last error becomes the cause.
 */
export async function eventually(
  what: string,
  check: () => boolean | Promise<boolean>,
  deadlineMs: number = DEADLINE_MS,
): Promise<void> {
  const giveUpAtMs = performance.now() + deadlineMs;
  let cause: unknown;
  while (performance.now() < giveUpAtMs) {
    try {
      if (await check()) return;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    await sleep(INTERVAL_MS);
  }
  throw new Error(`Waited ${deadlineMs} ms in vain until ${what}`, { cause });
}

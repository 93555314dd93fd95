// Eight processes that share one concurrency limit, one of which is killed with -9 every second.
// SPILLGATE_ACQUISITIONS: how many slots are taken in all, 10,000 if it is not set.
import { expect, test } from 'vitest';
import { watchFleet } from '../redis/store/slot-referee.ts';

const LONGEST_MS = 3_600_000;
const ACQUISITIONS = Number(process.env['SPILLGATE_ACQUISITIONS'] ?? 10_000);

test(
  'never more than limit are held, and none outlives its process by more than hold',
  async () => {
    const report = await watchFleet({
      processes: 8,
      limit: 5,
      holdMs: 3000,
      acquisitions: ACQUISITIONS,
      isCrashDue: (_, passedMs) => passedMs >= 1000,
      giveUpMs: LONGEST_MS,
    });

    const { taken, crashes, mostLive, tooMany, tooLong, leftAfterHold } = report;
    process.stdout.write(`\n${taken} slots taken, ${crashes} processes killed, at most ${mostLive} held\n`);
    expect({ tooMany, tooLong, leftAfterHold }).toEqual({ tooMany: [], tooLong: [], leftAfterHold: 0 });
    expect(taken).toBeGreaterThanOrEqual(ACQUISITIONS);
    expect(mostLive).toBe(5);
  },
  LONGEST_MS + 60_000,
);

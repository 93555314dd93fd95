import { expect, test } from 'vitest';
import { PATIENCE_MS } from '../../patience.ts';
import { watchFleet } from './slot-referee.ts';

test(
  'processes that die with -9 leave no slot behind for longer than hold, and no more are ever held',
  async () => {
    const seen = await watchFleet({
      processes: 3,
      limit: 2,
      holdMs: 2000,
      acquisitions: 150,
      isCrashDue: (taken) => taken >= 30,
      giveUpMs: PATIENCE_MS,
    });

    expect(seen).toMatchObject({ mostLive: 2, tooMany: [], tooLong: [], leftAfterHold: 0 });
    expect(seen.taken).toBeGreaterThanOrEqual(150);
    expect(seen.crashes).toBeGreaterThanOrEqual(3);
  },
  PATIENCE_MS * 2,
);

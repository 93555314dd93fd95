// Processes with leases that crash, stand still, give leases back and lose their master, at random, for as long as one
// likes: one exact limit would have admitted all that they admit, by the time of Redis.
// SPILLGATE_SECONDS: how long for each algorithm, 60 if it is not set.
import { expect, test } from 'vitest';
import { seededRandom } from '../../packages/limiter/src/testing/random.ts';
import { LeaseFleet, swapMaster } from '../redis/store/lease-fleet.ts';
import type { LeasedNumbers } from '../redis/store/lease-process.ts';
import { startReplicated } from '../redis/servers.ts';

const SECONDS = Number(process.env['SPILLGATE_SECONDS'] ?? 60);
const PROCESSES = 8;
const WINDOW = { quota: 1000, window: '1s' } as const;

const EACH: readonly [LeasedNumbers][] = [
  [{ kind: 'tokenBucket', average: 1000, burst: 1000, period: '1s' }],
  [{ kind: 'fixedWindow', ...WINDOW }],
  [{ kind: 'slidingWindowCounter', ...WINDOW }],
  // Its leases last a fiftieth of the window.
  [{ kind: 'slidingWindowLog', quota: 10_000, window: '10s' }],
];

test.each(EACH)(
  '$kind: leases admit nothing extra, whatever happens',
  { timeout: SECONDS * 1000 + 120_000 },
  async (numbers) => {
    const seed = Date.now() % 1_000_000;
    const random = seededRandom(seed);
    const group = await startReplicated();
    const fleet = await LeaseFleet.start(PROCESSES);
    const happened: Record<string, number> = {};
    const events: Readonly<Record<string, () => Promise<void>>> = {
      crash: async () => fleet.crash(random.below(PROCESSES)),
      reopen: async () => fleet.reopen(random.below(PROCESSES)),
      freeze: async () => {
        const at = random.below(PROCESSES);
        fleet.freeze(at);
        await fleet.turns(1 + random.below(5));
        fleet.thaw(at);
      },
      failover: async () => fleet.freezeAll(async () => swapMaster(group)),
    };
    try {
      const store = { sentinel: { urls: group.sentinels.map(({ url }) => url), name: group.masterName } };
      await fleet.open({ store, numbers });
      await fleet.traffic(true);
      const endsAtMs = performance.now() + SECONDS * 1000;
      while (performance.now() < endsAtMs) {
        await fleet.turns(1 + random.below(10));
        const name = random.pick([
          'crash',
          'crash',
          'freeze',
          'freeze',
          'reopen',
          'reopen',
          'reopen',
          'failover',
        ]);
        await events[name]?.();
        happened[name] = (happened[name] ?? 0) + 1;
      }
      await fleet.traffic(false);

      const [leased, asked] = [fleet.admitted('lease'), fleet.admitted('store')];
      process.stdout.write(
        `\n${numbers.kind}, seed ${seed}: ${leased} by leases, ${asked} by Redis; ${JSON.stringify(happened)}\n`,
      );
      expect(leased).toBeGreaterThan(SECONDS * 10);
      expect(fleet.refusedInReplay()).toBe(0);
    } finally {
      await fleet.stop();
      await group.stop();
    }
  },
);

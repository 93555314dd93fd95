// A check that was charged for nobody, under a policy with leases: it gets back what it spent while nothing was charged
// behind it, and else nothing. A lease behind it would exist twice.
import {
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Limit,
} from 'spillgate';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ScriptBatches } from '../../../packages/limiter/src/stores/redis/script-batches.ts';
import { PATIENCE_MS } from '../../patience.ts';
import { startRedis, type RedisServer } from '../servers.ts';

const START_US = 1_000_000_000_000;

let server: RedisServer;
let nowUs: number;
let lateCharges: boolean[];
let heard: () => void;
let batches: ScriptBatches;

beforeAll(async () => {
  server = await startRedis();
});

afterAll(async () => {
  await server.stop();
});

beforeEach(async () => {
  await server.command('FLUSHALL');
  nowUs = START_US;
  lateCharges = [];
  batches = new ScriptBatches({
    route: async ({ script, args }) => server.command('EVAL', script?.source ?? '', ...args.slice(1)),
    nowUs: () => String(nowUs),
    localUs: (ms) => Math.floor(ms * 1000),
    onLateCharge: (refunded) => {
      lateCharges.push(refunded);
      heard();
    },
  });
});

describe.each([
  ['true', true],
  ["'auto'", 'auto'],
] as const)('leases: %s', (_name, leases) => {
  // 999 per second: the state has a fraction of a microsecond.
  const api = tokenBucket({ name: 'api', average: 999, burst: 1000, period: '1s', leases }).for('hot');
  const exact = tokenBucket({ name: 'exact', average: 999, burst: 1000, period: '1s' }).for('hot');

  test('what nothing was charged behind is given back', async () => {
    await spend([api], 10);
    nowUs += 500;

    await giveBack([api], 400);

    expect(lateCharges).toEqual([true]);
    expect(await left(api)).toBe(990);
  });

  test('a limit with a cost of its own gets that back', async () => {
    await giveBack([api.withCost(50)], 400);

    expect(lateCharges).toEqual([true]);
    expect(await left(api)).toBe(1000);
  });

  test('what a lease lies behind stays spent', async () => {
    await giveBack([api], 400, async () => {
      await batches.lease(api.stateKey, api, 30);
    });

    expect(lateCharges).toEqual([false]);
    expect(await left(api)).toBe(1000 - 400 - 30);
  });

  test('what another check was charged behind stays spent', async () => {
    await giveBack([api], 400, async () => spend([api], 1));

    expect(lateCharges).toEqual([false]);
    expect(await left(api)).toBe(599);
  });

  test('what has passed in the meantime is not given back', async () => {
    await giveBack([api], 400, async () => {
      nowUs += 200_000;
    });

    expect(lateCharges).toEqual([true]);
    expect(await left(api)).toBe(1000);
  });

  test('a limit without leases in the same check gets its own back in any case', async () => {
    await giveBack([api, exact], 400, async () => spend([api, exact], 1));

    expect(lateCharges).toEqual([false]);
    expect([await left(api), await left(exact)]).toEqual([599, 999]);
  });
});

test.each([
  ['fixed window', fixedWindow],
  ['sliding window counter', slidingWindowCounter],
  ['sliding window log', slidingWindowLog],
])('a lease of a %s that comes when nobody waits for it any more is given back', async (_name, make) => {
  const limit = make({ name: 'late', quota: 1000, window: '1h', leases: true }).for('hot');
  const distant = new ScriptBatches({
    route: async ({ script, args, onLateReply }) => {
      const reply = await server.command('EVAL', script?.source ?? '', ...args.slice(1));
      if (onLateReply === undefined) return reply;
      setImmediate(onLateReply, reply);
      throw new Error('the server did not answer in time');
    },
    nowUs: () => String(nowUs),
    localUs: (ms) => Math.floor(ms * 1000),
    onLateCharge: () => undefined,
  });

  await expect(distant.lease(keyOf(limit), limit, 40)).rejects.toThrow('in time');

  await expect.poll(() => left(limit), { timeout: PATIENCE_MS }).toBe(1000);
});

describe('a queue', () => {
  const queue = leakyBucket({ name: 'queue', average: 10, period: '1s', maxDelay: '10s' }).for('hot');

  test('does not promise a moment twice because somebody in front has left', async () => {
    let behind = 0;
    await giveBack([queue], 3, async () => {
      behind = await delayUs(queue);
    });

    // The one behind was told to start after the first three, and the next one has to start after it.
    expect([behind, await delayUs(queue)]).toEqual([300_000, 400_000]);
  });

  test('gets back the end that nobody stands behind', async () => {
    await spend([queue], 1);

    await giveBack([queue], 3);

    expect(lateCharges).toEqual([true]);
    expect(await delayUs(queue)).toBe(100_000);
  });
});

async function delayUs(limit: Limit): Promise<number> {
  return (await decide('check', [limit], 1)).verdicts[0]?.delayUs ?? -1;
}

async function spend(limits: readonly Limit[], cost: number): Promise<void> {
  await decide('check', limits, cost);
}

async function decide(verb: 'check' | 'peek', limits: readonly Limit[], cost: number) {
  return batches.decide(0, { verb, limits, cost, keys: limits.map(keyOf) });
}

/** Charges, lets something happen, and then finds that nobody waits any more. */
async function giveBack(
  limits: readonly Limit[],
  cost: number,
  meanwhile?: () => Promise<void>,
): Promise<void> {
  const answer = await decide('check', limits, cost);
  await meanwhile?.();
  const told = new Promise<void>((resolve) => (heard = resolve));
  batches.giveBack({ verb: 'check', limits, cost, keys: limits.map(keyOf) }, answer);
  await told;
}

async function left(limit: Limit): Promise<number | undefined> {
  return (await decide('peek', [limit], 1)).verdicts[0]?.remaining;
}

/** Any name will do, as long as there is one per limit. */
function keyOf({ policy, stateKey }: Limit): string {
  return policy.leases === false ? `exact-${stateKey}` : stateKey;
}

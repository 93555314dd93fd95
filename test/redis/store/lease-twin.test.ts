import {
  fixedWindow,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Limit,
  type Policy,
} from 'spillgate';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { AnyState } from '../../../packages/limiter/src/algorithms/algorithm.ts';
import type { HeldLease } from '../../../packages/limiter/src/algorithms/lease.ts';
import { chargeLease } from '../../../packages/limiter/src/stores/local/lease-grant.ts';
import { leasesOf } from '../../../packages/limiter/src/stores/local/leased-plan.ts';
import {
  decode,
  decodeLease,
  encode,
  encodeLease,
  encodeReturn,
} from '../../../packages/limiter/src/stores/redis/protocol.ts';
import { seededRandom, type Random } from '../../../packages/limiter/src/testing/random.ts';
import { startRedis, type RedisServer } from '../servers.ts';
import { openRaw } from './clients.ts';
import { packState } from './packed-state.ts';
import { takeSnapshot, type Snapshot } from './snapshot.ts';
import { DECIDE_SCRIPT, LEASE_SCRIPT } from './whole-scripts.ts';

const KEY = 'state';
const START_US = 1_000_000_000_000;
const PROGRAMS = 150;
const FOREIGN_CLOCK_GRACE_MS = 3_600_000;

let server: RedisServer;
let raw: Redis;

beforeAll(async () => {
  server = await startRedis();
  raw = openRaw(server);
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

test.each([
  ['token bucket', randomBucket],
  ['fixed window', randomFixedWindow],
  ['sliding window counter', randomCounter],
  ['sliding window log', randomLog],
])(
  'Redis grants leases of a %s, keeps them and takes them back exactly as the TypeScript twin',
  async (_name, policyFrom) => {
    const random = seededRandom(11);
    const total = { granted: 0, returned: 0 };
    for (let program = 0; program < PROGRAMS; program += 1) {
      await server.command('DEL', KEY);
      const twins = new Twins(policyFrom(random).for('key'));
      for (let step = 0; step < 20; step += 1) {
        twins.moveClock(random);
        const before = await takeSnapshot(raw, [KEY]);
        const { redis, typescript } =
          twins.leases.length > 0 && random.below(3) === 0
            ? await twins.giveBack(random)
            : random.below(3) === 0
              ? await twins.decide(1 + random.below(20))
              : await twins.take(1 + random.below(random.pick([200, 200, 2 ** 34])));
        expect(redis).toEqual(typescript);
        const kept = twins.kept(before, await takeSnapshot(raw, [KEY]));
        expect(kept.redis).toEqual(kept.typescript);
      }
      total.granted += twins.granted;
      total.returned += twins.returned;
    }
    expect(Math.min(total.granted, total.returned)).toBeGreaterThan(100);
  },
);

interface Answers {
  readonly redis: unknown;
  readonly typescript: unknown;
}

/** Asks both twins the same. */
class Twins {
  readonly leases: HeldLease[] = [];
  nowUs = START_US;
  granted = 0;
  returned = 0;
  private readonly limit: Limit;
  private state: AnyState | undefined;
  private written = false;

  constructor(limit: Limit) {
    this.limit = limit;
  }

  /** Mostly forward; a step back is tolerated, or not. */
  moveClock(random: Random): void {
    const step = random.below(random.pick([10, 100_000, 2_000_000, 20_000_000]));
    this.nowUs += random.below(12) === 0 ? -step : step;
  }

  /** What Redis keeps and until when, and what it should: the moment is between two. */
  kept(before: Snapshot, after: Snapshot): Answers {
    const { plan } = this.limit;
    const [kept] = after.values;
    const bytes = this.state && packState(plan.algorithm.name, this.state);
    const expected = bytes?.toString('hex');
    if (!this.written || this.state === undefined)
      return { redis: kept?.bytes?.toString('hex'), typescript: expected };
    const { resetAfterUs } = plan.algorithm.decide(this.state, plan.numbers, 0, this.nowUs);
    const [earliestMs = 0, latestMs = 0] = [before, after].map(
      ({ timeUs }) => Math.floor(timeUs / 1000) + Math.ceil(resetAfterUs / 1000) + FOREIGN_CLOCK_GRACE_MS,
    );
    const expiresAtMs = kept?.expiresAtMs ?? 0;
    return {
      redis: [kept?.bytes?.toString('hex'), expiresAtMs],
      typescript: [expected, Math.min(latestMs, Math.max(earliestMs, expiresAtMs))],
    };
  }

  /** What others do in between. */
  async decide(cost: number): Promise<Answers> {
    const { algorithm, numbers } = this.limit.plan;
    const { allowed, spent, carried } = algorithm.decide(this.state, numbers, cost, this.nowUs);
    this.keep(spent ?? carried);
    const question = { verb: 'check', limits: [this.limit], cost, keys: [KEY] } as const;
    const reply = await server.command(
      'EVAL',
      DECIDE_SCRIPT,
      '1',
      KEY,
      ...encode([question], String(this.nowUs)),
    );
    return { redis: decode([question], reply)[0]?.verdicts[0]?.allowed, typescript: allowed };
  }

  async take(want: number): Promise<Answers> {
    const { plan } = this.limit;
    const charged = chargeLease(this.state, plan, want, this.nowUs);
    const { grant, left, storeUs } = decodeLease(
      await evalLease(encodeLease(this.limit, want, String(this.nowUs))),
    );
    if (grant !== undefined) {
      this.granted += 1;
      this.leases.push(leasesOf(plan).hold(plan.numbers, grant));
    }
    this.keep(charged?.spent);
    const { remaining } = plan.algorithm.decide(this.state, plan.numbers, 0, this.nowUs);
    const granted = charged && { tokens: charged.tokens, end: charged.end };
    return {
      redis: { grant, left, storeUs },
      typescript: { grant: granted, left: remaining, storeUs: this.nowUs },
    };
  }

  async giveBack(random: Random): Promise<Answers> {
    const lease = this.leases.pop();
    if (lease === undefined) throw new RangeError('there is nothing to give back');
    lease.spend(random.below(lease.tokens + 1), this.nowUs);
    const { plan } = this.limit;
    const { state } = this;
    const after = state && leasesOf(plan).takeBack(state, plan.numbers, lease.rest, this.nowUs);
    const taken = after === state ? 0 : 1;
    this.returned += taken;
    // As if never used: Redis keeps nothing then.
    const { algorithm, numbers } = plan;
    const isKept = after !== undefined && algorithm.decide(after, numbers, 0, this.nowUs).resetAfterUs > 0;
    this.keep(taken === 1 ? after : undefined);
    if (taken === 1 && !isKept) this.state = undefined;
    const redis = await evalLease(encodeReturn(this.limit, lease.rest, String(this.nowUs)));
    return { redis, typescript: [taken] };
  }

  private keep(state: AnyState | undefined): void {
    this.written = state !== undefined;
    this.state = state ?? this.state;
  }
}

test.each([
  ['no number of tokens', ['', 'lease', ' 1 10 1 1 10', '0']],
  ['a word for the tokens', ['', 'lease', ' 1 10 1 1 10', 'inf']],
  ['an algorithm without leases', ['', 'lease', ' 2 10 1 1 10', '5']],
  ['another verb', ['', 'take', ' 1 10 1 1 10', '5']],
  ['half a lease', ['', 'return', ' 1 10 1 1 10', '5', '0', '9']],
  ['half a limit', ['', 'lease', ' 1 10 1 1', '5']],
])('%s is refused, and nothing is written', async (_what, args) => {
  await server.command('DEL', KEY);

  await expect(evalLease(args)).rejects.toThrow('SPILLGATE');

  expect(await server.command('EXISTS', KEY)).toBe(0);
});

test('a key that holds something else is left alone', async () => {
  await server.command('SET', KEY, 'hello');

  const reply = await evalLease(['', 'lease', ' 1 10 1 1 10', '5']);

  expect(() => decodeLease(reply)).toThrow('not a state');
  expect(String(await server.command('GET', KEY))).toBe('hello');
});

function evalLease(args: readonly string[]): Promise<unknown> {
  return server.command('EVAL', LEASE_SCRIPT, '1', KEY, ...args);
}

function randomBucket(random: Random) {
  const average = random.pick([1, 3, 7, 100, 999, 1000, 123_457]);
  const burst = random.pick([1, 5, 20, 400, 1000, 50_000]);
  return tokenBucket({ name: 'leased', average, burst, period: random.pick(['1s', '1m', '7s']) });
}

function randomWindow(random: Random) {
  const quota = random.pick([1, 7, 100, 999, 5000, 2 ** 36]);
  return { name: 'leased', quota, window: random.pick(['100ms', '1s', '7s', '30d']) };
}

function randomFixedWindow(random: Random): Policy {
  return fixedWindow({ ...randomWindow(random), offset: random.pick(['0ms', '30ms']) });
}

function randomCounter(random: Random): Policy {
  return slidingWindowCounter(randomWindow(random));
}

function randomLog(random: Random): Policy {
  return slidingWindowLog(randomWindow(random));
}

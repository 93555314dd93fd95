import { tokenBucket, type Limit } from 'spillgate';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { BucketState, CompiledBucket } from '../../../packages/limiter/src/algorithms/bucket/bucket.ts';
import { chargeLease, returnTail } from '../../../packages/limiter/src/stores/local/lease-grant.ts';
import { TokenLease } from '../../../packages/limiter/src/stores/local/token-lease.ts';
import {
  decodeLease,
  encodeLease,
  encodeReturn,
} from '../../../packages/limiter/src/stores/redis/protocol.ts';
import { seededRandom, type Random } from '../../../packages/limiter/src/testing/random.ts';
import { startRedis, type RedisServer } from '../servers.ts';
import { LEASE_SCRIPT } from './whole-scripts.ts';

const KEY = 'state';
const START_US = 1_000_000_000_000;
const PROGRAMS = 150;

let server: RedisServer;

beforeAll(async () => {
  server = await startRedis();
});

afterAll(async () => {
  await server.stop();
});

test('Redis grants leases and takes them back exactly as the TypeScript twin', async () => {
  const random = seededRandom(11);
  const total = { granted: 0, returned: 0 };
  for (let program = 0; program < PROGRAMS; program += 1) {
    await server.command('DEL', KEY);
    const twins = new Twins(randomBucket(random).for('key'));
    for (let step = 0; step < 20; step += 1) {
      twins.nowUs += random.below(random.pick([10, 100_000, 2_000_000]));
      const { redis, typescript } =
        twins.leases.length > 0 && random.below(3) === 0
          ? await twins.giveBack(random)
          : await twins.take(1 + random.below(200));
      expect(redis).toEqual(typescript);
    }
    total.granted += twins.granted;
    total.returned += twins.returned;
  }
  expect(Math.min(total.granted, total.returned)).toBeGreaterThan(100);
});

interface Answers {
  readonly redis: unknown;
  readonly typescript: unknown;
}

/** Asks both twins the same. */
class Twins {
  readonly leases: TokenLease[] = [];
  nowUs = START_US;
  granted = 0;
  returned = 0;
  private readonly limit: Limit;
  private readonly numbers: CompiledBucket;
  private state: BucketState | undefined;

  constructor(limit: Limit) {
    this.limit = limit;
    this.numbers = limit.plan.numbers as CompiledBucket;
  }

  async take(want: number): Promise<Answers> {
    const charged = chargeLease(this.state, this.numbers, want, this.nowUs);
    const { grant, storeUs } = decodeLease(
      await evalLease(encodeLease(this.limit, want, String(this.nowUs))),
    );
    if (grant !== undefined) {
      this.granted += 1;
      this.state = charged?.spent;
      this.leases.push(new TokenLease(this.numbers, grant));
    }
    const end = charged && { us: charged.spent.tatUs, fraction: charged.spent.fraction };
    const granted = charged && { tokens: charged.tokens, end };
    return { redis: { grant, storeUs }, typescript: { grant: granted, storeUs: this.nowUs } };
  }

  async giveBack(random: Random): Promise<Answers> {
    const lease = this.leases.pop();
    if (lease === undefined) throw new RangeError('there is nothing to give back');
    lease.spend(random.below(lease.tokens + 1), this.nowUs);
    const after = returnTail(this.state, lease, this.nowUs);
    const taken = after === this.state ? 0 : 1;
    this.returned += taken;
    this.state = after;
    const redis = await evalLease(encodeReturn(this.limit, lease, String(this.nowUs)));
    return { redis, typescript: [taken] };
  }
}

test.each([
  ['no number of tokens', ['', 'lease', ' 1 10 1 1 10', '0']],
  ['a word for the tokens', ['', 'lease', ' 1 10 1 1 10', 'inf']],
  ['another algorithm', ['', 'lease', ' 3 10 1000 0 0', '5']],
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

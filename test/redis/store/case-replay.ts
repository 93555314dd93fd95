import type { AnyNumbers, AnyState } from '#limiter/algorithms/algorithm.js';
import type { AlgorithmCase } from '#limiter/algorithms/case.js';
import { CASES as LISTED_CASES } from '#limiter/algorithms/cases.js';
import { ALGORITHMS } from '#limiter/algorithms/index.js';
import { Limit } from '#limiter/limit.js';
import { keyName } from '#limiter/stores/redis/protocol.js';
import type { Redis } from 'ioredis';
import { tokenBucket, type AlgorithmName, type StoreVerdict } from 'spillgate';
import { redisStore, type RedisClient } from 'spillgate/redis';
import { look, toVerdict } from './model.ts';
import { MOMENT_CASES } from './moments.ts';
import { packState } from './packed-state.ts';

export interface ReplayedCase {
  readonly algorithm: AlgorithmName;
  readonly case: AlgorithmCase<AnyNumbers, AnyState>;
}

/** An answer, and the state left behind as hexadecimal bytes; null for none. */
export interface Replay {
  readonly check: StoreVerdict;
  readonly peek: StoreVerdict;
  readonly afterPeek: string | null;
  readonly afterCheck: string | null;
}

export const CASES: readonly ReplayedCase[] = [
  ...Object.values(ALGORITHMS).flatMap(({ name }) =>
    LISTED_CASES[name].map((moment) => ({ algorithm: name, case: moment })),
  ),
  ...MOMENT_CASES,
];

const PREFIX = 'cases:';
const STATE_LIFE_MS = 600_000;
const TIMEOUT_MS = 10_000;

/** Only a carrier of the name: the plan of a case is its own. */
const policy = tokenBucket({ name: 'case', average: 1, period: '1s' });

/** Plants the state of a case, then looks and asks by way of the store. */
export async function replay(replayed: ReplayedCase, client: RedisClient, raw: Redis): Promise<Replay> {
  const { numbers, state, cost, nowUs } = replayed.case;
  const algorithm = ALGORITHMS[replayed.algorithm];
  const plan = {
    algorithm,
    numbers,
    limit: numbers.limit,
    stateId: `case/${algorithm.name}`,
    rateId: '',
    blockedUntilUs: undefined,
    penalty: undefined,
  };
  const limit = new Limit(policy, plan, 'k', 'k');
  const key = keyName(PREFIX, limit);
  await raw.del(key);
  if (state !== undefined) await raw.set(key, packState(algorithm.name, state), 'PX', STATE_LIFE_MS);
  const store = redisStore({ client, prefix: PREFIX, timeoutMs: TIMEOUT_MS, clock: () => nowUs });
  try {
    const [peek] = await store.peek([limit], cost);
    const afterPeek = await readHex(raw, key);
    const [check] = await store.check([limit], cost);
    const afterCheck = await readHex(raw, key);
    if (check === undefined || peek === undefined) throw new RangeError('the store gave no verdict');
    return { check: toVerdict(check), peek: toVerdict(peek), afterPeek, afterCheck };
  } finally {
    await store.close();
  }
}

/** What the case, and for the rest the TypeScript twin, say about the same moment. */
export function expectedReplay({ algorithm: name, case: moment }: ReplayedCase): Replay {
  const algorithm = ALGORITHMS[name];
  const { numbers, state, cost, nowUs, expected } = moment;
  const { spent, carried: _carried, ...answer } = expected;
  const { carried } = algorithm.decide(state, numbers, cost, nowUs);
  const written = expected.allowed ? spent : carried;
  return {
    check: toVerdict({ delayUs: 0, ...answer }),
    peek: look({ algorithm, numbers }, state, cost, nowUs),
    afterPeek: toHex(name, state),
    afterCheck: toHex(name, written ?? state),
  };
}

async function readHex(raw: Redis, key: string): Promise<string | null> {
  return (await raw.getBuffer(key))?.toString('hex') ?? null;
}

function toHex(algorithm: AlgorithmName, state: AnyState | undefined): string | null {
  return state === undefined ? null : packState(algorithm, state).toString('hex');
}

import { describe, expect, test } from 'vitest';
import { createLimiter, LimiterError, type Limit, type Limiter } from '../../src/index.ts';
import { virtualClock, type VirtualClock } from '../../src/testing/index.ts';
import { TENS } from './policies.ts';
import { remoteStore } from './remote-store.ts';

const [api] = TENS as [(typeof TENS)[number]];

interface Bench {
  readonly limiter: Limiter;
  readonly clock: VirtualClock;
  readonly told: string[];
  /** The servers that fail now, and with what. */
  readonly failing: Map<string, LimiterError>;
  /** The server of every key that is not named here is called as the key. */
  readonly moved: Map<string, string>;
}

/** A store of several servers: a key lives on the server of its name. */
function severalServers(names: readonly string[]): Bench {
  const clock = virtualClock();
  const failing = new Map<string, LimiterError>();
  const moved = new Map<string, string>();
  const serverOf = ({ key }: Limit): string => moved.get(key) ?? key;
  const plain = remoteStore(clock);
  const store = Object.assign(plain, {
    servers: (limits?: readonly Limit[]) =>
      limits?.map(serverOf) ?? names.map((name) => moved.get(name) ?? name),
    checkLocally: (limits: readonly Limit[]) =>
      limits[0]?.key === 'known'
        ? [{ allowed: true, remaining: 1, retryAfterUs: 0, resetAfterUs: 0, delayUs: 0 }]
        : undefined,
  });
  const decide = store.check.bind(store);
  store.check = async (limits, cost) => {
    const failure = limits.map((limit) => failing.get(serverOf(limit))).find((error) => error !== undefined);
    if (failure !== undefined) throw failure;
    return decide(limits, cost);
  };
  const limiter = createLimiter({ clock, store, failurePolicy: 'failClosed', deadlineMs: 60_000 });
  const told: string[] = [];
  limiter.on('storeError', ({ node, error }) => told.push(`storeError ${node} ${error.code}`));
  limiter.on('recovered', ({ node, failures }) => told.push(`recovered ${node} ${failures}`));
  return { limiter, clock, told, failing, moved };
}

function unavailable(node?: string): LimiterError {
  return new LimiterError('STORE_UNAVAILABLE', 'connection refused', { node });
}

async function checkAll(limiter: Limiter, keys: readonly string[], times = 1): Promise<void> {
  for (let at = 0; at < times; at += 1) {
    for (const key of keys) await limiter.check(api.for(key));
  }
}

describe('an outage of one of several servers', () => {
  test('begins once and ends once, however many checks the others decide meanwhile', async () => {
    const { limiter, failing, told } = severalServers(['a', 'b', 'c']);
    failing.set('b', unavailable('b'));
    await checkAll(limiter, ['a', 'b', 'c'], 50);
    expect(told).toEqual(['storeError b STORE_UNAVAILABLE']);

    failing.delete('b');
    await checkAll(limiter, ['a', 'b', 'c'], 50);

    expect(told).toEqual(['storeError b STORE_UNAVAILABLE', 'recovered b 50']);
  });

  test('is told apart from an outage of another one', async () => {
    const { limiter, failing, told } = severalServers(['a', 'b', 'c']);
    failing.set('a', unavailable('a')).set('b', unavailable('b'));
    await checkAll(limiter, ['a', 'b', 'c'], 5);
    failing.delete('a');
    await checkAll(limiter, ['a', 'b', 'c'], 5);

    expect(told).toEqual([
      'storeError a STORE_UNAVAILABLE',
      'storeError b STORE_UNAVAILABLE',
      'recovered a 5',
    ]);
  });

  test('is the fault of the server that the error names, also in a check of several', async () => {
    const { limiter, failing, told } = severalServers(['a', 'b']);
    failing.set('b', unavailable('b'));

    for (let at = 0; at < 10; at += 1) {
      await limiter.check([api.for('a'), api.for('b')]);
      await limiter.check(api.for('a'));
    }

    expect(told).toEqual(['storeError b STORE_UNAVAILABLE']);
  });

  test('that an error without a name tells of is that of the server which is out already', async () => {
    const { limiter, failing, told } = severalServers(['a', 'b']);
    failing.set('b', unavailable('b'));
    await checkAll(limiter, ['b']);
    failing.set('b', unavailable());

    await limiter.check([api.for('a'), api.for('b')]);

    expect(told).toEqual(['storeError b STORE_UNAVAILABLE']);
  });

  test('is not over because a decision was known without asking', async () => {
    const { limiter, failing, told } = severalServers(['known', 'b']);
    failing.set('known', unavailable('known'));
    await limiter.peek(api.for('b'));
    await limiter.check([api.for('b'), api.for('known')]);

    await checkAll(limiter, ['known'], 5);

    expect(told).toEqual(['storeError known STORE_UNAVAILABLE']);
  });

  test('is over when another server has its place', async () => {
    const { limiter, failing, moved, told } = severalServers(['a', 'b']);
    failing.set('b', unavailable('b'));
    await checkAll(limiter, ['b']);

    moved.set('b', 'successor of b');
    await checkAll(limiter, ['a', 'b']);

    expect(told).toEqual(['storeError b STORE_UNAVAILABLE', 'recovered b 1']);
  });

  test('says what is new: another kind of failure once', async () => {
    const { limiter, failing, told } = severalServers(['a']);
    failing.set('a', unavailable('a'));
    await checkAll(limiter, ['a'], 3);
    failing.set('a', new LimiterError('STORE_MISCONFIGURED', 'wrong password', { node: 'a' }));
    await checkAll(limiter, ['a'], 3);
    failing.set('a', unavailable('a'));
    await checkAll(limiter, ['a'], 3);

    expect(told).toEqual(['storeError a STORE_UNAVAILABLE', 'storeError a STORE_MISCONFIGURED']);
  });
});

describe('a server that fails now and then', () => {
  test('is told of once per second, and an outage that lasts is never kept quiet', async () => {
    const { limiter, clock, failing, told } = severalServers(['a']);
    for (let at = 0; at < 40; at += 1) {
      failing.set('a', unavailable('a'));
      await checkAll(limiter, ['a']);
      failing.delete('a');
      await checkAll(limiter, ['a']);
      clock.advance('50ms');
    }
    expect(told).toEqual([
      'storeError a STORE_UNAVAILABLE',
      'recovered a 1',
      'storeError a STORE_UNAVAILABLE',
      'recovered a 1',
    ]);

    failing.set('a', unavailable('a'));
    await checkAll(limiter, ['a'], 3);
    clock.advance('1s');
    await checkAll(limiter, ['a']);

    expect(told.slice(4)).toEqual(['storeError a STORE_UNAVAILABLE']);
  });
});

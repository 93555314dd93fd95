import { describe, expect, test, vi } from 'vitest';
import { createLimiter, tokenBucket } from '../../../src/index.ts';
import { HttpLimiter, type HttpRequestFacts } from '../../../src/http/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { remoteStore } from '../../unit/remote-store.ts';

const api = tokenBucket({ name: 'api', average: 3, period: '1m' });
const other = tokenBucket({ name: 'other', average: 5, period: '1m' });
const FACTS: HttpRequestFacts = {
  peer: '192.0.2.1',
  headerLines: (name) => (name === 'x-tenant' ? ['acme'] : []),
};
const memory = (): ReturnType<typeof createLimiter> => createLimiter({ clock: virtualClock() });

describe('with the embedded store', () => {
  test('there is no promise where no option is a function, neither for an admission nor for a refusal', () => {
    const limits = new HttpLimiter<string>({
      limiter: memory(),
      policies: [{ policy: api, key: [{ header: 'x-tenant' }, 'address'] }, other],
      cost: 2,
    });

    expect(limits.check('/', FACTS)).toMatchObject({ passes: true, headers: expect.any(Array) });
    expect(limits.check('/', FACTS)).toMatchObject({ passes: false, answer: { status: 429 } });
  });

  test.each([
    ['skip', { skip: async () => false }],
    ['cost', { cost: async () => 1 }],
    ['key', { key: async () => 'ann' }],
    ['a part of a key', { key: ['address', async () => 'ann'] as const }],
    ['override', { override: async () => undefined }],
    ['policies', { policies: async () => api }],
    // Of a library with promises of its own.
    [
      'a key that has only then()',
      // oxlint-disable-next-line unicorn/no-thenable -- an object with nothing but then() is what is tested
      { key: () => ({ then: (go: (key: string) => void) => go('ann') }) as never },
    ],
  ])('%s may take its time', async (_, options) => {
    const limits = new HttpLimiter<string>({ limiter: memory(), policies: api, ...options });

    const ruling = limits.check('/', FACTS);

    expect(ruling).toHaveProperty('then');
    expect(await ruling).toMatchObject({ passes: true });
  });
});

test('a limiter that has to ask a network is asked for that once, and from then on waited for', async () => {
  const limiter = createLimiter({ store: remoteStore(virtualClock()) });
  const atOnce = vi.spyOn(limiter, 'checkSync');
  const limits = new HttpLimiter<string>({ limiter, policies: api });

  for (let time = 0; time < 3; time += 1)
    expect(await limits.check('/', FACTS)).toMatchObject({ passes: true });

  expect(atOnce).toHaveBeenCalledTimes(1);
});

test("a limiter of one's own needs no checkSync", async () => {
  const inner = memory();
  const check = vi.fn<typeof inner.check>((limits, options) => inner.check(limits, options));
  const limits = new HttpLimiter<string>({ limiter: { check }, policies: api });

  expect(await limits.check('/', FACTS)).toMatchObject({ passes: true });
  expect(check).toHaveBeenCalledWith([expect.anything()], { cost: 1, signal: undefined });
});

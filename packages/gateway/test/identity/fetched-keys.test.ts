import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import {
  FetchedKeys,
  type FetchedKeysOptions,
  type KeyFetchOutcome,
} from '../../src/identity/jwt/fetched-keys.ts';
import { jwksOf, signer } from './issuer.ts';

const one = jwksOf(signer('one', 'ES256'));
const two = jwksOf(signer('two', 'ES256'));
const SILENT = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/** A URL in virtual time: what it answers, and how often it was asked. */
class Issuer {
  asked = 0;
  answer: () => Promise<string> = async () => Promise.resolve(one);
  readonly outcomes: KeyFetchOutcome[] = [];

  keys(options: Partial<FetchedKeysOptions> = {}): FetchedKeys {
    const keys = new FetchedKeys({
      fetch: async (signal) => {
        this.asked += 1;
        return Promise.race([
          this.answer(),
          new Promise<never>((_, reject) => {
            signal.addEventListener('abort', () => reject(new Error('given up')));
          }),
        ]);
      },
      refreshMs: 600_000,
      cooldownMs: 30_000,
      waitMs: 500,
      timeoutMs: 5000,
      maxStaleMs: 86_400_000,
      log: SILENT,
      observe: (outcome) => this.outcomes.push(outcome),
      random: () => 1,
      ...options,
    });
    open.push(keys);
    return keys;
  }
}

const open: FetchedKeys[] = [];
const never = async (): Promise<string> => new Promise(() => undefined);
const fails = async (): Promise<string> => Promise.reject(new Error('down'));

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  for (const keys of open.splice(0)) keys.close();
  vi.useRealTimers();
});

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

test('the first request waits for the first answer, and no other one', async () => {
  const issuer = new Issuer();
  const keys = issuer.keys();

  expect(keys.current()).toBeUndefined();
  const found = await keys.newer(undefined);

  expect(found?.size).toBe(1);
  expect(keys.current()).toBe(found);
  expect(issuer.asked).toBe(1);
});

test('nobody waits longer than the bound, however long the answer takes', async () => {
  const issuer = new Issuer();
  issuer.answer = never;
  const keys = issuer.keys();

  let waited: unknown = 'still';
  void Promise.resolve(keys.newer(undefined)).then((found) => (waited = found));
  await pass(499);
  expect(waited).toBe('still');
  await pass(1);

  expect(waited).toBeUndefined();
  expect(issuer.asked).toBe(1);
});

test('a thousand unknown names of keys cause one question per cool-down', async () => {
  const issuer = new Issuer();
  const keys = issuer.keys();
  const known = await keys.newer(undefined);
  await pass(30_000);

  const answers = await Promise.all(Array.from({ length: 1000 }, async () => keys.newer(known)));

  expect(answers.every((found) => found === undefined)).toBe(true);
  expect(issuer.asked).toBe(2);
  await pass(29_999);
  expect(await keys.newer(known)).toBeUndefined();
  expect(issuer.asked).toBe(2);
  await pass(1);
  await keys.newer(known);
  expect(issuer.asked).toBe(3);
});

test('a key that the issuer has added is found by the token that names it', async () => {
  const issuer = new Issuer();
  const keys = issuer.keys();
  const before = await keys.newer(undefined);
  await pass(30_000);
  issuer.answer = async () => Promise.resolve(two);

  const after = await keys.newer(before);

  expect(after).toBeDefined();
  expect(after).not.toBe(before);
  expect(keys.current()).toBe(after);
});

test('the same answer stays the same object: what was checked with it stays checked', async () => {
  const issuer = new Issuer();
  const keys = issuer.keys();
  const before = await keys.newer(undefined);

  await pass(600_000);

  expect(issuer.asked).toBe(2);
  expect(issuer.outcomes).toEqual(['changed', 'unchanged']);
  expect(keys.current()).toBe(before);
});

test('keys stay in use while the URL fails, for as long as they may, and it is asked ever more rarely', async () => {
  const issuer = new Issuer();
  const keys = issuer.keys({ maxStaleMs: 3_600_000, now: () => Date.now() });
  await keys.newer(undefined);
  issuer.answer = fails;

  await pass(3_600_000);
  expect(keys.current()?.size).toBe(1);
  await pass(1);

  expect(keys.current()).toBeUndefined();
  // 1, 2, 4, ... 60 seconds apart from the first failure on.
  expect(issuer.asked).toBeLessThan(70);
  expect(issuer.asked).toBeGreaterThan(40);
});

test.each([
  ['not JSON', 'keys'],
  ['another document', '{"error":"not found"}'],
  ['no keys', '{"keys":[]}'],
  ['too many keys', JSON.stringify({ keys: Array.from({ length: 101 }, () => ({ kty: 'EC' })) })],
  ['a private key', '{"keys":[{"kty":"EC","d":"secret"}]}'],
  ['a shared key', '{"keys":[{"kty":"oct","k":"secret"}]}'],
  ['a field twice', '{"keys":[],"keys":[{"kty":"EC"}]}'],
])('an answer that is %s is not used', async (_, text) => {
  const issuer = new Issuer();
  const keys = issuer.keys();
  const before = await keys.newer(undefined);
  issuer.answer = async () => Promise.resolve(text);

  await pass(600_000);

  expect(issuer.outcomes.at(-1)).toBe('failed');
  expect(keys.current()).toBe(before);
});

test('an answer that never comes is given up, and asked for again', async () => {
  const issuer = new Issuer();
  issuer.answer = never;
  issuer.keys({ timeoutMs: 1 });

  // AbortSignal.timeout() does not go by the clock of the test.
  vi.useRealTimers();
  await vi.waitFor(() => expect(issuer.outcomes).toEqual(['failed']));
});

test('after the end nothing is asked', async () => {
  const issuer = new Issuer();
  const keys = issuer.keys();
  await keys.newer(undefined);

  keys.close();
  await pass(6_000_000);

  expect(issuer.asked).toBe(1);
});

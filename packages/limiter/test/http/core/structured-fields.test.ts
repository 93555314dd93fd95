import * as fc from 'fast-check';
import { parseList } from 'structured-headers';
import { expect, test } from 'vitest';
import { createLimiter, type Decision, type Limit, type Policy } from '../../../src/index.ts';
import { rateLimitHeaders } from '../../../src/http/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { randomPolicy } from './random-policy.ts';
import { runs } from '../../../../../test/runs.ts';

declare global {
  /** The parser's types name this type of browsers. */
  type BufferSource = ArrayBuffer | ArrayBufferView;
}

/** RFC 9651: the largest Integer. */
const MOST = 999_999_999_999_999;
const DECISIONS_PER_PROGRAM = 6;
const describeDecision = rateLimitHeaders({ headers: ['draft', 'legacy'], partitionKey: true });

/** Some requests against some policies, and the time that passes before each. */
const programs = fc.record({
  policies: fc
    .integer({ min: 1, max: 4 })
    .chain((count) => fc.tuple(...Array.from({ length: count }, (_, at) => randomPolicy(`p${at}`)))),
  requests: fc.array(
    fc.record({
      share: fc.double({ min: 0, max: 1.2, noNaN: true }),
      key: fc.string({ minLength: 1, unit: 'binary' }),
      waitUs: fc.oneof(fc.integer({ min: 0, max: 1000 }), fc.integer({ min: 0, max: 10_000_000_000 })),
    }),
    { minLength: DECISIONS_PER_PROGRAM, maxLength: DECISIONS_PER_PROGRAM },
  ),
});

test('an independent parser reads what the fields say, for thousands of decisions', async () => {
  let decisions = 0;
  await fc.assert(
    fc.asyncProperty(programs, async ({ policies, requests }) => {
      const clock = virtualClock();
      const limiter = createLimiter({ clock });
      for (const { share, key, waitUs } of requests) {
        clock.set(clock() + waitUs);
        const limits = policies.map((policy) => policy.for(key));
        const decision = await limiter.check(limits, { cost: costOf(policies, share) });
        expectFieldsToSay(decision, limits);
        decisions += 1;
      }
    }),
    { numRuns: runs(800) },
  );
  expect(decisions).toBeGreaterThan(runs(4000));
});

function costOf(policies: readonly Policy[], share: number): number {
  const smallest = Math.min(...policies.map(({ limit }) => limit));
  return Math.max(1, Math.floor(smallest * share));
}

function expectFieldsToSay(decision: Decision, limits: readonly Limit[]): void {
  const headers = new Map(describeDecision(decision, limits));
  const service = parseList(headers.get('RateLimit') ?? '');
  const policies = parseList(headers.get('RateLimit-Policy') ?? '');
  expect(service.map(([name]) => name)).toEqual(limits.map(({ policy }) => policy.name));
  expect(policies.map(([name]) => name)).toEqual(limits.map(({ policy }) => policy.name));

  const retryAfter = Number(headers.get('Retry-After') ?? Number.NaN);
  for (const [at, verdict] of decision.verdicts.entries()) {
    const said = service[at]?.[1];
    const policy = policies[at]?.[1];
    const t = Number(said?.get('t'));
    expect(said?.get('r')).toBe(Math.min(verdict.remaining, MOST));
    expect(t * 1000).toBeGreaterThanOrEqual(verdict.allowed ? 0 : finite(verdict.retryAfterMs));
    expect(Number(policy?.get('q'))).toBeGreaterThanOrEqual(Math.min(verdict.limit, MOST));
    expect(Number(policy?.get('w'))).toBeGreaterThanOrEqual(1);
    expect(bytesOf(said?.get('pk'))).toHaveLength(12);
    expect(said?.get('pk')).toEqual(policy?.get('pk'));
    // §6 of the draft: not before the end of the window of whoever denied.
    if (!verdict.allowed && !Number.isNaN(retryAfter)) expect(retryAfter).toBeGreaterThanOrEqual(t);
  }
  expect(headers.has('Retry-After')).toBe(!decision.allowed && decision.retryAfterMs !== Infinity);
  if (!Number.isNaN(retryAfter)) {
    expect(Number.isInteger(retryAfter) && retryAfter >= 1).toBe(true);
    expect(retryAfter * 1000).toBeGreaterThanOrEqual(decision.retryAfterMs);
    expect((retryAfter - 1) * 1000).toBeLessThan(decision.retryAfterMs);
    expect(headers.get('X-RateLimit-Retry-After')).toBe(String(retryAfter));
  }
}

function finite(ms: number): number {
  return ms === Infinity ? 0 : ms;
}

function bytesOf(value: unknown): Uint8Array {
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  throw new TypeError('pk is no byte sequence');
}

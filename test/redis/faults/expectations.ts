import { LimiterError, type Limit } from 'spillgate';
import type { RedisStoreOptions } from 'spillgate/redis';
import { expect } from 'vitest';
import type { FaultReport, FaultRun } from './fault-run.ts';
import { patiently } from './patience.ts';
import type { Answer } from './traffic.ts';

const MAX_LATE_MS = 20;
const MAX_RECOVERY_MS = 2000;

/** What holds in every fault: answers in time and by the failure policy, health that says what is, a quick recovery. */
export function expectSound(report: FaultReport): void {
  expectInTime(report);
  expectDown(report);
  expect(report.transitions.join(' ')).toMatch(/^(nodeDown nodeUp ?)+$/);
  expect(report.during.nodes.map(({ lastError }) => lastError ?? '')).not.toContain('');
  expectRecovery(report);
}

/** Once it is down it is not up again while the fault lasts, though a server that refuses may be asked in between. */
export function expectDown({ statuses }: FaultReport): void {
  expect(statuses.at(-1)).toBe('down');
  expect(statuses.slice(statuses.indexOf('down'))).not.toContain('up');
}

export function expectInTime({ answers, degraded, failurePolicy }: FaultReport): void {
  expect(answers.filter(({ lateMs }) => lateMs > MAX_LATE_MS)).toEqual([]);
  const source = failurePolicy === 'inMemoryFallback' ? 'fallback' : 'failurePolicy';
  expect(degraded.filter(({ decision }) => decision.source !== source)).toEqual([]);
  expect(degraded.filter(({ decision }) => !(decision.cause instanceof LimiterError))).toEqual([]);
  if (failurePolicy === 'inMemoryFallback') return;
  const allowed = failurePolicy === 'passThrough';
  expect(degraded.filter(({ decision }) => decision.allowed !== allowed)).toEqual([]);
}

export function expectRecovery({ after, recoveredAfterMs }: FaultReport): void {
  expect(new Set(after.nodes.map(({ status }) => status))).toEqual(new Set(['up']));
  expect(recoveredAfterMs).toBeLessThan(MAX_RECOVERY_MS);
}

/**
 * Every admission of the store has spent its own token, and nothing else has spent one but checks that failed on the
 * way: each at most once, whatever happened to its connection. Valid while no server loses what it has confirmed.
 */
export async function expectAccounted(options: RedisStoreOptions, answers: readonly Answer[]): Promise<void> {
  await patiently(options, async (auditor) => {
    for (const { limit, own } of accountsOf(answers)) {
      const { remaining, degraded, limit: burst, policy, key } = await auditor.peek(limit);
      const spent = burst - remaining;
      expect({
        policy,
        key,
        degraded,
        tooFewSpent: spent < own.admissions,
        tooManySpent: spent > own.admissions + own.failures,
        deniedTooEarly: own.deniedWithRoom > 0,
      }).toEqual({
        policy,
        key,
        degraded: false,
        tooFewSpent: false,
        tooManySpent: false,
        deniedTooEarly: false,
      });
    }
  });
}

/**
 * With one limit per check, what is left after each admission is a number that no other admission saw, except where a
 * charge that came too late was given back: the tokens spent behind it are then counted down once more. Whether those
 * were handed out twice is for {@link expectAccounted} to say.
 */
export async function expectDistinct(run: Pick<FaultRun, 'answers' | 'lateCharges'>): Promise<void> {
  const seen = run.answers
    .filter(({ decision }) => !decision.degraded && decision.allowed)
    .map(({ decision: { policy, key, remaining } }) => `${policy} ${key} ${remaining}`);
  const repeated = seen.length - new Set(seen).size;
  // A refund is reported after the server has made it.
  await expect.poll(() => run.lateCharges).toBeGreaterThanOrEqual(repeated);
}

/** Some server failed, and with it some of its own keys: nobody else's. */
export function expectOnlyVictims({ degraded }: FaultReport, victims: readonly Limit[]): void {
  const names = new Set(victims.map(nameOf));
  expect(degraded.length).toBeGreaterThan(0);
  expect(degraded.filter(({ limits }) => !limits.some((limit) => names.has(nameOf(limit))))).toEqual([]);
}

/** Limits that were empty before a fault stay empty through it: no server that takes over starts them anew. */
export function expectStillEmpty(limits: readonly Limit[], answers: readonly Answer[]): void {
  const names = new Set(limits.map(nameOf));
  const decided = answers.filter(
    ({ limits: own, decision }) => !decision.degraded && own.some((limit) => names.has(nameOf(limit))),
  );
  expect(decided.length).toBeGreaterThan(0);
  expect(decided.filter(({ decision }) => decision.allowed)).toEqual([]);
}

interface Account {
  /** The store admitted it. */
  admissions: number;
  /** The store could not decide: it may have been charged or not. */
  failures: number;
  /** The store denied although every limit had room. */
  deniedWithRoom: number;
}

function accountsOf(answers: readonly Answer[]): Iterable<{ limit: Limit; own: Account }> {
  const accounts = new Map<string, { limit: Limit; own: Account }>();
  for (const { limits, decision } of answers) {
    for (const limit of limits) {
      const name = nameOf(limit);
      const account = accounts.get(name) ?? { limit, own: { admissions: 0, failures: 0, deniedWithRoom: 0 } };
      accounts.set(name, account);
      if (decision.degraded) account.own.failures += 1;
      else if (decision.allowed) account.own.admissions += 1;
      else if (decision.remaining > 0) account.own.deniedWithRoom += 1;
    }
  }
  return accounts.values();
}

function nameOf({ policy, key }: Limit): string {
  return `${policy.name} ${key}`;
}

// Limits of one check that no single script can decide together: other slots of a cluster, other shards. Two round
// trips, whatever their number: first every part looks, and a denial ends it there with nothing spent. Then every part
// checks; if another request was faster and one part denies after all, the others give back what they took.
import type { Limit } from '../../limit.ts';
import type { Caller, StoreVerdict } from '../store.ts';
import type { Answer, Question, Verb } from './protocol.ts';
import type { ScriptBatches } from './script-batches.ts';
import type { Topology } from './topology.ts';

/** One independent Redis: a server, a sentinel group or a cluster, with its decisions on their way. */
export interface Shard {
  readonly name: string;
  readonly weight: number;
  readonly topology: Topology;
  readonly batches: ScriptBatches;
}

/** Limits of one check that one script call can decide together. */
export interface Group {
  readonly shard: Shard;
  readonly lane: number;
  readonly limits: Limit[];
  readonly keys: string[];
  /** Where each limit stands in the check. */
  readonly places: number[];
}

/** What one script call can decide together becomes one group. */
export function addGroup(groups: Group[], group: Group): void {
  const known = groups.find(({ shard, lane }) => shard === group.shard && lane === group.lane);
  if (known === undefined) {
    groups.push(group);
    return;
  }
  known.limits.push(...group.limits);
  known.keys.push(...group.keys);
  known.places.push(...group.places);
}

/** What every part of a check has. */
export interface Whole {
  readonly cost: number;
  readonly caller: Caller | undefined;
  /** Hears what an admitted check has charged, part by part. */
  readonly onAdmitted?: ((group: Group, answer: Answer) => void) | undefined;
}

export async function composedCheck(
  groups: readonly Group[],
  whole: Whole,
): Promise<readonly StoreVerdict[]> {
  const seen = await composedPeek(groups, whole);
  if (!seen.every(({ allowed }) => allowed)) return countDenials(groups, whole, seen);

  const attempts = await Promise.allSettled(groups.map((group) => decide('check', group, whole)));
  const denied = attempts.some((attempt) => attempt.status === 'rejected' || !isAdmitted(attempt.value));
  // Nobody waits for the decision any more: no part may keep anything either.
  if (!denied && whole.caller?.isGone === true) giveBackAll(groups, whole, attempts);
  if (!denied) reportAdmitted(groups, whole, attempts);
  const settled = await Promise.allSettled(
    groups.map((group, at) => settle(group, { whole, attempt: attempts[at], denied })),
  );
  return inOrder(groups, settled.map(orThrow));
}

/**
 * A denial that its own limit counts has to be counted where that lives: the part is checked after all. Nothing may
 * stay spent, should it be admitted by now.
 */
async function countDenials(
  groups: readonly Group[],
  whole: Whole,
  seen: readonly StoreVerdict[],
): Promise<readonly StoreVerdict[]> {
  const counted = groups.filter(
    ({ limits, places }) =>
      whole.cost > 0 && limits.some((limit, at) => isCounted(limit, seen[places[at] ?? -1])),
  );
  if (counted.length === 0) return seen;
  const verdicts = [...seen];
  await Promise.all(
    counted.map(async (group) => {
      const attempt = await decide('check', group, whole);
      if (isAdmitted(attempt)) {
        await group.shard.batches.refund({ question: questionOf('check', group, whole), reserved: attempt });
        return;
      }
      group.places.forEach((place, at) => {
        const verdict = attempt.verdicts[at];
        if (verdict !== undefined) verdicts[place] = verdict;
      });
    }),
  );
  return verdicts;
}

function isCounted({ plan }: Limit, verdict: StoreVerdict | undefined): boolean {
  return plan.penalty !== undefined && verdict?.allowed === false && (verdict.penaltyLeftUs ?? 0) === 0;
}

export async function composedPeek(groups: readonly Group[], whole: Whole): Promise<readonly StoreVerdict[]> {
  const answers = await Promise.all(groups.map((group) => decide('peek', group, whole)));
  return inOrder(
    groups,
    answers.map(({ verdicts }) => verdicts),
  );
}

function giveBackAll(
  groups: readonly Group[],
  whole: Whole,
  attempts: readonly PromiseSettledResult<Answer>[],
): void {
  groups.forEach((group, at) => {
    const attempt = attempts[at];
    if (attempt?.status !== 'fulfilled') return;
    group.shard.batches.giveBack(questionOf('check', group, whole), attempt.value);
  });
}

function reportAdmitted(
  groups: readonly Group[],
  { onAdmitted }: Whole,
  attempts: readonly PromiseSettledResult<Answer>[],
): void {
  if (onAdmitted === undefined) return;
  groups.forEach((group, at) => {
    const attempt = attempts[at];
    if (attempt?.status === 'fulfilled') onAdmitted(group, attempt.value);
  });
}

interface GroupOutcome {
  readonly whole: Whole;
  readonly attempt: PromiseSettledResult<Answer> | undefined;
  /** Some part did not admit the check, so that none may keep anything. */
  readonly denied: boolean;
}

async function settle(
  group: Group,
  { whole, attempt, denied }: GroupOutcome,
): Promise<readonly StoreVerdict[]> {
  if (attempt === undefined) throw new RangeError('one attempt per group');
  const answer = orThrow(attempt);
  if (!denied || !isAdmitted(answer) || whole.cost === 0) return answer.verdicts;
  return group.shard.batches.refund({ question: questionOf('check', group, whole), reserved: answer });
}

function decide(verb: Verb, group: Group, whole: Whole): Promise<Answer> {
  return group.shard.batches.decide(group.lane, questionOf(verb, group, whole));
}

function questionOf(verb: Verb, { limits, keys }: Group, { cost, caller }: Whole): Question {
  return { verb, limits, keys, cost, caller };
}

export function isAdmitted({ verdicts }: Answer): boolean {
  return verdicts.every(({ allowed }) => allowed);
}

function inOrder(
  groups: readonly Group[],
  answers: readonly (readonly StoreVerdict[])[],
): readonly StoreVerdict[] {
  const placed = groups.flatMap(({ places }, at) =>
    places.map((place, within) => ({ place, verdict: answers[at]?.[within] })),
  );
  return placed
    .toSorted((a, b) => a.place - b.place)
    .map(({ verdict }) => {
      if (verdict === undefined) throw new RangeError('one verdict per limit');
      return verdict;
    });
}

function orThrow<Value>(settled: PromiseSettledResult<Value>): Value {
  if (settled.status === 'rejected') throw settled.reason;
  return settled.value;
}

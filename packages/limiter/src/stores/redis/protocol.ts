import { MAX_SENT_NUMBERS } from '../../algorithms/algorithm.ts';
import type { LeaseAnswer } from '../local/lease-table.ts';
import type { TokenLease } from '../local/token-lease.ts';
import type { Limit, Plan } from '../../limit.ts';
import type { Caller, StoreVerdict } from '../store.ts';

export type Verb = 'check' | 'peek';

/** One decision on its way to the script. */
export interface Question {
  readonly verb: Verb;
  readonly limits: readonly Limit[];
  readonly cost: number;
  /** The names of the limits' states, in the same order. */
  readonly keys: readonly string[];
  /** Who leaves before it is sent is not charged. */
  readonly caller?: Caller | undefined;
}

const VALUES_PER_LIMIT = 5;
const FAULT = -1;

/**
 * The script's arguments after the keys: the time ('' for the server's own), then one text per question. Every argument
 * costs client and server more than its letters do, and the script parses equal texts once.
 */
export function encode(questions: readonly Question[], nowUs: string): string[] {
  const args = [nowUs];
  for (const { verb, limits, cost } of questions) {
    let text = `${verb} ${cost}`;
    for (const { plan } of limits) text += encodedPlan(plan);
    args.push(text);
  }
  return args;
}

function encodedPlan(plan: Plan): string {
  const known = encodedPlans.get(plan);
  if (known !== undefined) return known;
  const encoded = ` ${sentNumbers(plan).join(' ')}`;
  encodedPlans.set(plan, encoded);
  return encoded;
}

/** A policy's numbers never change, so they are written out once. */
const encodedPlans = new WeakMap<Plan, string>();

/** The algorithm's number and its own numbers in their order; what it has fewer than the protocol has room for is 0. */
function sentNumbers({ algorithm, numbers }: Plan): readonly number[] {
  const { redis } = algorithm;
  const byName = new Map<string, number>(Object.entries(numbers));
  const sent = Object.keys(redis.numbers).map((name) => byName.get(name) ?? 0);
  return [redis.number, ...sent, ...Array<number>(MAX_SENT_NUMBERS - sent.length).fill(0)];
}

/** What one script call decided, and when. */
export interface Answer {
  readonly verdicts: readonly StoreVerdict[];
  /** The time by which it was decided: the server's own, unless the store has a clock. */
  readonly atUs: number;
}

/** The answer to each question; undefined where a key held something that is not a state. */
export function decode(questions: readonly Question[], reply: unknown): readonly (Answer | undefined)[] {
  const limitCount = questions.reduce((sum, { limits }) => sum + limits.length, 0);
  const values = toNumbers(reply, limitCount * VALUES_PER_LIMIT + 1);
  const atUs = values.at(-1) ?? 0;
  let at = 0;
  return questions.map(({ limits }) => {
    const verdicts = limits.map((_, place) => toVerdict(values, at + place * VALUES_PER_LIMIT));
    const faulty = values[at] === FAULT;
    at += limits.length * VALUES_PER_LIMIT;
    return faulty ? undefined : { verdicts, atUs };
  });
}

/** What was spent at `reserved.atUs` and has to be given back. */
export interface Refund {
  readonly question: Question;
  readonly reserved: Answer;
}

/** The arguments of the refund after the keys. */
export function encodeRefund({ question, reserved }: Refund, nowUs: string): string[] {
  const { limits, cost } = question;
  const args = [nowUs, String(reserved.atUs), String(cost)];
  limits.forEach(({ plan }, at) => {
    const absentAtUs = reserved.atUs + (reserved.verdicts[at]?.resetAfterUs ?? 0);
    args.push(encodedPlan(plan), String(absentAtUs));
  });
  return args;
}

export function decodeRefund({ question }: Refund, reply: unknown): readonly StoreVerdict[] {
  const values = toNumbers(reply, question.limits.length * VALUES_PER_LIMIT);
  return question.limits.map((_, place) => toVerdict(values, place * VALUES_PER_LIMIT));
}

/** The arguments of a question for a lease, after its key. */
export function encodeLease({ plan }: Limit, want: number, nowUs: string): string[] {
  return [nowUs, 'lease', encodedPlan(plan), String(want)];
}

export function decodeLease(reply: unknown): LeaseAnswer {
  const [tokens = 0, left = 0, us = 0, fraction = 0, storeUs = 0] = toNumbers(reply, 5);
  if (tokens === FAULT) throw new TypeError('the key holds something that is not a state');
  return { grant: tokens === 0 ? undefined : { tokens, end: { us, fraction } }, left, storeUs };
}

/** The arguments with which the unused end of a lease is given back. */
export function encodeReturn({ plan }: Limit, { next, end }: TokenLease, nowUs: string): string[] {
  const moments = [next.us, next.fraction, end.us, end.fraction];
  return [nowUs, 'return', encodedPlan(plan), ...moments.map(String)];
}

/** Whether it was taken back. */
export function decodeReturn(reply: unknown): boolean {
  return toNumbers(reply, 1)[0] === 1;
}

function toVerdict(values: readonly number[], at: number): StoreVerdict {
  return {
    allowed: values[at] === 1,
    remaining: values[at + 1] ?? 0,
    retryAfterUs: values[at + 2] ?? 0,
    resetAfterUs: values[at + 3] ?? 0,
    delayUs: values[at + 4] ?? 0,
  };
}

function toNumbers(reply: unknown, expected: number): readonly number[] {
  if (!Array.isArray(reply)) throw new TypeError('the script answered something else than a list');
  if (reply.length !== expected)
    throw new TypeError(`the script answered ${reply.length} values, expected ${expected}`);
  return reply.map((value: unknown) => {
    // Some clients hand out integers as text or bigint.
    const number = typeof value === 'number' ? value : Number(value);
    if (!Number.isSafeInteger(number))
      throw new TypeError('the script answered something else than integers');
    return number;
  });
}

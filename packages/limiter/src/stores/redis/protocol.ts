import { Buffer } from 'node:buffer';
import { hash } from 'node:crypto';
import type { LeaseRest } from '../../algorithms/lease.ts';
import { MAX_SENT_NUMBERS, type AnyNumbers, type AnyState } from '../../algorithms/algorithm.ts';
import type { AnyAlgorithm } from '../../algorithms/index.ts';
import { LimiterError } from '../../errors.ts';
import { costOf, underPlan, type Limit, type Plan } from '../../limit.ts';
import type { LeaseAnswer } from '../local/lease-table.ts';
import { RecentMap } from '../local/recent-map.ts';
import type { ClockReading } from '../local/store-clock.ts';
import type { Caller, StoreVerdict } from '../store.ts';
import { checkVerdicts, denialAfter, peekVerdicts, type SeenLimit } from './seen-limits.ts';

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

/** Stands for all limits of a decision of which a key held something that is not a state. */
const FAULT = -1;
/** The letter of the first text. */
const FIRST_LETTER = 48;

/**
 * The script's arguments after the keys: the time ('' for the server's own), what is asked, each text once, and, where
 * that is more than one text, a letter per question. Most calls ask the same of every key.
 */
export function encode(questions: readonly Question[], nowUs: string): string[] {
  const [first] = questions;
  if (first === undefined) return [nowUs];
  if (questions.every((question) => asksTheSame(question, first)))
    return [nowUs, encodedQuestion(first, nowUs)];
  const texts = new Map<string, string>();
  let order = '';
  for (const question of questions) {
    const text = encodedQuestion(question, nowUs);
    let letter = texts.get(text);
    if (letter === undefined) {
      letter = String.fromCodePoint(FIRST_LETTER + texts.size);
      texts.set(text, letter);
    }
    order += letter;
  }
  return texts.size === 1 ? [nowUs, ...texts.keys()] : [nowUs, ...texts.keys(), order];
}

/** Whether two questions about one limit each have the same text, without writing it. */
function asksTheSame(one: Question, other: Question): boolean {
  return (
    one.verb === other.verb &&
    one.cost === other.cost &&
    one.limits.length === 1 &&
    other.limits.length === 1 &&
    one.limits[0]?.plan === other.limits[0]?.plan &&
    one.limits[0]?.cost === other.limits[0]?.cost
  );
}

function encodedQuestion({ verb, limits, cost }: Question, nowUs: string): string {
  let text = `${verb} ${cost}`;
  for (const limit of limits) text += encodedLimit(limit, cost, nowUs) + encodedPenalty(limit.plan);
  return text;
}

function encodedLimit(limit: Limit, cost: number, nowUs: string): string {
  const text = encodedPlan(limit.plan, nowUs);
  return limit.cost === undefined ? text : `${text}@${costOf(limit, cost)}`;
}

/** How the script that decides reads when a key is blocked. */
function encodedPenalty({ penalty }: Plan): string {
  return penalty === undefined ? '' : `!${penalty.after} ${penalty.withinUs} ${penalty.forUs}`;
}

/** How the scripts read a limit's numbers. */
export function encodedPlan(plan: Plan, nowUs: string): string {
  const { numbers, algorithm } = plan;
  const renewed = algorithm.redis.renew?.(numbers, nowUs === '' ? wallUs() : Number(nowUs));
  if (renewed !== undefined) return ` ${sentNumbers(algorithm, renewed).join(' ')}`;
  const known = encodedPlans.get(plan);
  if (known !== undefined) return known;
  const encoded = ` ${sentNumbers(algorithm, numbers).join(' ')}`;
  encodedPlans.set(plan, encoded);
  return encoded;
}

/** The server's clock decides; this process's is close enough to choose what to tell it. */
function wallUs(): number {
  // The wall clock: servers tell the time of day, too.
  return Date.now() * 1000;
}

/** The numbers of most policies never change, so they are written out once. */
const encodedPlans = new WeakMap<Plan, string>();

/** The algorithm's number and its own numbers in their order; what it has fewer than the protocol has room for is 0. */
function sentNumbers({ redis }: AnyAlgorithm, numbers: AnyNumbers): readonly number[] {
  const byName = new Map<string, number>(Object.entries(numbers));
  const sent = Object.keys(redis.numbers).map((name) => byName.get(name) ?? 0);
  return [redis.number, ...sent, ...Array<number>(MAX_SENT_NUMBERS - sent.length).fill(0)];
}

/** What one script call decided, and when. */
export interface Answer {
  readonly verdicts: readonly StoreVerdict[];
  /** The time by which it was decided: the server's own, unless the store has a clock. */
  readonly atUs: number;
  /** The states by which it was decided, in the order of the limits. */
  readonly states?: readonly (AnyState | undefined)[];
  /** The denial that the same check about one limit would get now, where it was admitted and left too little for it. */
  readonly next?: StoreVerdict | undefined;
  /** What the answer says about the clock of the server. */
  readonly reading?: ClockReading | undefined;
}

/** The answer to each question; undefined where a key held something that is not a state. */
export function decode(
  questions: readonly Question[],
  reply: unknown,
  readingAt?: (storeUs: number) => ClockReading,
): readonly (Answer | undefined)[] {
  const reader = new AnswerReader(reply, readingAt);
  const answers = questions.map((question) => reader.answerTo(question));
  reader.finish();
  return answers;
}

/** Reads what prelude.lua describes. */
class AnswerReader {
  private readonly values: readonly number[];
  private readonly atUs: number;
  private readonly reading: ClockReading | undefined;
  private at = 2;
  private admitted = 0;

  constructor(reply: unknown, readingAt?: (storeUs: number) => ClockReading) {
    this.values = toNumbers(reply);
    this.atUs = this.values[0] ?? 0;
    this.reading = readingAt?.(this.atUs);
  }

  answerTo({ verb, limits, cost }: Question): Answer | undefined {
    if (this.values[this.at] === FAULT) {
      this.at += 1;
      return undefined;
    }
    const seen = limits.map(({ plan }) => this.seen(plan));
    const states = seen.map(({ state }) => state);
    const verdicts = (verb === 'check' ? checkVerdicts : peekVerdicts)(limits, seen, cost, this.atUs);
    const { atUs, reading } = this;
    if (!verdicts.every(({ allowed }) => allowed)) return { verdicts, atUs, states, reading };
    this.admitted += 1;
    const [limit] = limits;
    const isLast = verb === 'check' && limits.length === 1 && (verdicts[0]?.remaining ?? 0) < cost;
    if (!isLast || limit === undefined) return { verdicts, atUs, states, reading };
    return { verdicts, atUs, states, reading, next: denialAfter(limit, states[0], cost, atUs) };
  }

  /** The script has said how many it admitted: verdicts that it did not reach would be for nothing, or for free. */
  finish(): void {
    if (this.at !== this.values.length)
      throw new TypeError(`the script answered ${this.values.length} values, expected ${this.at}`);
    if (this.admitted !== this.values[1])
      throw new TypeError(
        `the script admitted ${String(this.values[1])} decisions, and its answer ${this.admitted}`,
      );
  }

  private seen(plan: Plan): SeenLimit {
    const state = this.state(plan);
    if (plan.penalty === undefined) return { state, penaltyLeftUs: 0, penaltyBegan: false };
    const [penaltyLeftUs = 0, began] = this.values.slice(this.at, this.at + 2);
    this.at += 2;
    return { state, penaltyLeftUs, penaltyBegan: began === 1 };
  }

  private state({ algorithm, numbers }: Plan): AnyState | undefined {
    const count = this.values[this.at] ?? 0;
    const from = this.at + 1;
    this.at = from + count;
    if (count === 0) return undefined;
    return algorithm.redis.fromDoubles(this.values.slice(from, this.at), numbers);
  }
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
  limits.forEach((limit, at) => {
    const absentAtUs = reserved.atUs + (reserved.verdicts[at]?.resetAfterUs ?? 0);
    args.push(encodedLimit(limit, cost, nowUs), String(absentAtUs));
  });
  return args;
}

export function decodeRefund({ question }: Refund, reply: unknown): readonly StoreVerdict[] {
  const [answer] = decode(
    [{ ...question, verb: 'peek', cost: 0, limits: question.limits.map(withoutPenalty) }],
    reply,
  );
  if (answer === undefined) throw new TypeError('the script answered a refund with a fault');
  return answer.verdicts;
}

/** The arguments with which a slot is given back, whenever it was taken: a refund that says so by 0. */
export function encodeRelease({ plan }: Limit, nowUs: string): string[] {
  return [nowUs, '0', '1', encodedPlan(plan, nowUs), '0'];
}

/** The arguments of a question for a lease, after its key. */
export function encodeLease({ plan }: Limit, want: number, nowUs: string): string[] {
  return [nowUs, 'lease', encodedPlan(plan, nowUs), String(want)];
}

export function decodeLease(reply: unknown): LeaseAnswer {
  const [tokens = 0, left = 0, us = 0, fraction = 0, storeUs = 0] = toNumbers(reply);
  if (tokens === FAULT) throw new TypeError('the key holds something that is not a state');
  return { grant: tokens === 0 ? undefined : { tokens, end: { us, fraction } }, left, storeUs };
}

/** The arguments with which the rest of a lease is given back. */
export function encodeReturn({ plan }: Limit, rest: LeaseRest, nowUs: string): string[] {
  return [nowUs, 'return', encodedPlan(plan, nowUs), ...rest.map(String)];
}

/** Whether it was taken back. */
export function decodeReturn(reply: unknown): boolean {
  return toNumbers(reply)[0] === 1;
}

/** A key of these limits holds something else. */
export function notAState(limits: readonly Limit[]): LimiterError {
  const isTimed = limits.some(({ plan }) => plan.algorithm.redis.renew !== undefined);
  const clocks = isTimed
    ? " Or the clocks of this process and of Redis differ by more than half of the policy's period: correct them."
    : '';
  return new LimiterError(
    'STATE_INVALID',
    `A key of policy ${limits[0]?.policy.name ?? '?'} holds something that is not its state: give the limiter a prefix of its own.${clocks}`,
  );
}

export function toNumbers(reply: unknown): readonly number[] {
  if (!Array.isArray(reply)) throw new TypeError('the script answered something else than a list');
  if (reply.every(isInteger)) return reply;
  return reply.map((value: unknown) => {
    // Some clients hand out integers as text or bigint.
    const number = typeof value === 'number' ? value : Number(value);
    if (!Number.isSafeInteger(number))
      throw new TypeError('the script answered something else than integers');
    return number;
  });
}

function isInteger(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

/** Letters of SHA-256 in base64 kept of a key: 132 bits, so that nobody finds two keys with one name. */
const KEY_HASH_LETTERS = 22;

/**
 * The name of a limit's state in Redis: prefix, version of the state format, the hashed key as the cluster's hash tag,
 * and what the state's meaning depends on. Keys are always hashed: they may be secrets or addresses, and no byte of a
 * client's can form a separator or a hash tag.
 */
export function keyName(prefix: string, limit: Limit): string {
  return `${prefix}${STATE_VERSION}{${hashed(limit.stateKey)}}${limit.plan.stateId}`;
}

/**
 * Where the denials and the block of a limit's key are kept, in the same slot as its state. Other numbers of the policy
 * have other states, and the same block.
 */
function penaltyKeyName(stateKeyName: string, { policy }: Limit): string {
  return `${stateKeyName.slice(0, stateKeyName.indexOf('}') + 1)}${policy.name}:block`;
}

/** The keys of a decision: the states of its limits, then the blocks of those that have one. */
export function keysOf({ limits, keys }: Pick<Question, 'limits' | 'keys'>): readonly string[] {
  const blocks = limits.flatMap((limit, at) =>
    limit.plan.penalty === undefined ? [] : [penaltyKeyName(keys[at] ?? '', limit)],
  );
  return blocks.length === 0 ? keys : [...keys, ...blocks];
}

/** The same limit for those who neither count denials nor look for a block. */
export function withoutPenalty(limit: Limit): Limit {
  return limit.plan.penalty === undefined ? limit : underPlan(limit, { ...limit.plan, penalty: undefined });
}

/** A name in the same slot as a key of ours, which no limit can have. */
export function probeKeyName(prefix: string, key: string): string {
  return `${prefix}${STATE_VERSION}${tagOf(key)}:probe`;
}

/** Where it is kept, in the same slot as a key of ours, that a reservation was settled. */
export function settledKeyName(prefix: string, key: string, id: string): string {
  return `${prefix}${STATE_VERSION}${tagOf(key)}:settled:${id}`;
}

/** The part of a name that says whose state it is: all states of one key live together. */
export function tagOf(key: string): string {
  return key.slice(key.indexOf('{'), key.indexOf('}') + 1);
}

/** Raised whenever a packed state changes its meaning: old states are then left to expire. */
const STATE_VERSION = '2';

/** Most keys are checked again soon, and remembering a name is many times faster than hashing. */
const recentHashes = new RecentMap<string>(8192);

function hashed(stateKey: string): string {
  const known = recentHashes.get(stateKey);
  if (known !== undefined) return known;
  const found = hashOf(stateKey);
  recentHashes.set(stateKey, found);
  return found;
}

function hashOf(stateKey: string): string {
  // UTF-16, because two keys that differ only in a lone surrogate are the same bytes in UTF-8.
  return hash('sha256', Buffer.from(stateKey, 'utf16le'), 'base64url').slice(0, KEY_HASH_LETTERS);
}

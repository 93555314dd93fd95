import { hashedKey } from '../../config/schema/key.ts';
import type { Config } from '../../config/config.ts';
import type { RequestFacts } from '../request-facts.ts';
import { outcomeOf, printable, type DecisionRecord, type RuleOutcome } from '../rule-outcome.ts';

/** A decision as it was made. Its story is told only to whoever asks. */
export interface KeptDecision {
  /** Counts up in one process. */
  readonly number: number;
  readonly atMs: number;
  readonly config: Config;
  readonly request: RequestFacts;
  readonly outcome: RuleOutcome;
}

/** One line about a decision. */
export interface RecentDecision {
  readonly number: number;
  readonly id: string;
  readonly at: string;
  readonly outcome: DecisionRecord['outcome'];
  readonly reason: string;
  readonly method: string;
  readonly path: string;
  readonly client: string | undefined;
  readonly addressOddity?: string | undefined;
  readonly rule: string | undefined;
  readonly policy: string | undefined;
  readonly keys: readonly string[];
  readonly retryAfterMs: number | undefined;
}

const MAX_DENIED = 2048;
const MAX_ALLOWED = 1024;
/** What the headers of kept requests may weigh together. */
const MAX_HEADER_CHARACTERS = 8 * 1_048_576;
/** Admitted requests are kept up to this rate: at more, nobody looks at single ones, and keeping them has a price. */
const ALLOWED_PER_SECOND = 50;
/** Denied ones of one key: whoever floods the gateway must not push out what others were denied. */
const DENIED_PER_KEY_AND_SECOND = 100;

/** The last decisions of this process: denied ones apart, so that admitted ones do not push them out. */
export class DecisionHistory {
  private readonly denied = new Ring(MAX_DENIED);
  private readonly allowed = new Ring(MAX_ALLOWED);
  private readonly allowedRate = new KeptPerSecond(ALLOWED_PER_SECOND);
  private readonly deniedRate = new KeptPerSecond(DENIED_PER_KEY_AND_SECOND);
  private number = 0;

  readonly record = (request: RequestFacts, outcome: RuleOutcome, config: Config): void => {
    const isAllowed = outcome.admitted && outcomeOf(outcome) === 'allowed';
    const hasRoom = isAllowed
      ? this.allowedRate.hasRoom('')
      : this.deniedRate.hasRoom(outcome.detail.keys[0] ?? request.client.address ?? '');
    if (!hasRoom) return;
    this.number += 1;
    // The wall clock: it is shown.
    const kept = { number: this.number, atMs: Date.now(), config, request, outcome };
    (isAllowed ? this.allowed : this.denied).add(kept);
  };

  /** The latest decision about the request with this id. */
  find(id: string): KeptDecision | undefined {
    return this.all().find(({ request }) => request.id === id);
  }

  /** The latest first. */
  recent({ limit, sinceMs = 0, key, outcome }: RecentQuery): readonly RecentDecision[] {
    const found: RecentDecision[] = [];
    // A secret is kept as its hash only.
    const wanted = key === undefined ? undefined : [key, hashedKey(key)];
    for (const kept of outcome === 'denied' ? this.denied.latestFirst() : this.all()) {
      if (found.length >= limit || kept.atMs < sinceMs) break;
      const line = lineOf(kept);
      if (wanted === undefined || line.keys.some((each) => wanted.includes(each))) found.push(line);
    }
    return found;
  }

  private all(): readonly KeptDecision[] {
    return [...this.denied.latestFirst(), ...this.allowed.latestFirst()].toSorted(
      (one, other) => other.number - one.number,
    );
  }
}

export interface RecentQuery {
  readonly limit: number;
  /** Only those of this moment or later, in milliseconds since 1970. */
  readonly sinceMs?: number | undefined;
  readonly key?: string | undefined;
  /** `denied`: only those, and those of shadow mode. */
  readonly outcome?: 'denied' | undefined;
}

function lineOf({ number, atMs, request, outcome }: KeptDecision): RecentDecision {
  const { detail } = outcome;
  const { decision, reason } = detail.shadowResult ?? detail;
  const keys = decision?.verdicts.map(({ key }) => key) ?? detail.keys;
  const wait = decision?.allowed === false ? decision.retryAfterMs : undefined;
  return {
    number,
    id: request.id,
    at: new Date(atMs).toISOString(),
    outcome: outcomeOf(outcome),
    reason,
    method: printable(request.method),
    path: printable(request.path),
    client: request.client.address,
    addressOddity: request.client.oddity,
    rule: detail.rule,
    policy: decision?.policy,
    keys: [...new Set(keys.map(printable))],
    retryAfterMs: wait === Infinity ? undefined : wait,
  };
}

/** How many decisions of one key were kept in the current second. */
class KeptPerSecond {
  private readonly max: number;
  private readonly counts = new Map<string, number>();
  private startedMs = 0;

  constructor(max: number) {
    this.max = max;
  }

  /** Counts one more, unless there were enough. */
  hasRoom(key: string): boolean {
    const nowMs = performance.now();
    if (nowMs - this.startedMs >= 1000) {
      this.startedMs = nowMs;
      this.counts.clear();
    }
    const count = this.counts.get(key) ?? 0;
    if (count >= this.max) return false;
    // More keys than are kept at all push each other out, however few decisions each of them has.
    if (count > 0 || this.counts.size < MAX_DENIED) this.counts.set(key, count + 1);
    return true;
  }
}

/** The last so many decisions, as far as their headers are not too long together. */
class Ring {
  private readonly max: number;
  private readonly kept: (KeptDecision | undefined)[] = [];
  private first = 0;
  private count = 0;
  private characters = 0;

  constructor(max: number) {
    this.max = max;
  }

  add(decision: KeptDecision): void {
    this.characters += charactersOf(decision);
    if (this.count === this.max) this.dropOldest();
    this.kept[(this.first + this.count) % this.max] = decision;
    this.count += 1;
    while (this.characters > MAX_HEADER_CHARACTERS && this.count > 1) this.dropOldest();
  }

  *latestFirst(): Generator<KeptDecision> {
    for (let at = this.count - 1; at >= 0; at -= 1) {
      const decision = this.kept[(this.first + at) % this.max];
      if (decision !== undefined) yield decision;
    }
  }

  private dropOldest(): void {
    const oldest = this.kept[this.first];
    if (oldest !== undefined) this.characters -= charactersOf(oldest);
    this.kept[this.first] = undefined;
    this.first = (this.first + 1) % this.max;
    this.count -= 1;
  }
}

function charactersOf({ request: { headers, path } }: KeptDecision): number {
  let characters = path.length;
  for (let at = 0; at < headers.raw.length; at += 1) characters += (headers.raw[at] ?? '').length;
  return characters;
}

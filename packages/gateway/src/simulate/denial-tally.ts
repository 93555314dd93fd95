import type { RuleOutcome } from '../rules/rule-outcome.ts';

/** How many requests there were, and what would have become of them. */
export interface DenialCounts {
  requests: number;
  denied: number;
  /** By rules and policies in shadow mode, which refuse nobody. */
  wouldDeny: number;
}

/** Whom a policy refused, and how often. */
export interface DeniedKey {
  readonly policy: string;
  readonly key: string;
  denied: number;
  /** In shadow mode. */
  wouldDeny: number;
}

/** What happened in some minutes. */
export interface TimeSlice extends DenialCounts {
  readonly fromMs: number;
}

/** What one request came to. */
export interface RequestVerdict {
  readonly denied: boolean;
  readonly wouldDeny: boolean;
  readonly rule: string;
  readonly reason: RuleOutcome['detail']['reason'] | 'invalid' | 'authorization' | 'answered';
  readonly policy: string | undefined;
  readonly key: string | undefined;
  /** Whom the policies counted, or would have. */
  readonly keys: readonly string[];
  /** Redis was away, and a failure policy answered. */
  readonly degraded: boolean;
}

const NO_RULE = '(no rule)';
const MINUTE_MS = 60_000;
/** More than a day by the minute; beyond that, slices become longer. */
const MAX_SLICES = 2000;
/** Beyond that, those that were refused least are forgotten. */
const MAX_KEYS = 50_000;

const NO_KEYS: readonly string[] = [];

/** What no rule was asked about. */
export function verdictWithoutRule(reason: RequestVerdict['reason']): RequestVerdict {
  return {
    denied: reason !== 'answered',
    wouldDeny: false,
    rule: NO_RULE,
    reason,
    policy: undefined,
    key: undefined,
    keys: NO_KEYS,
    degraded: false,
  };
}

const INVALID = verdictWithoutRule('invalid');

/** Undefined stands for a request that is refused before any rule is asked. */
export function verdictOf(outcome: RuleOutcome | undefined): RequestVerdict {
  if (outcome === undefined) return INVALID;
  const { admitted, detail } = outcome;
  const { decision, reason } = detail.shadowResult ?? detail;
  const refused =
    !admitted || detail.shadowResult !== undefined || decision?.allowed === false || isRefusal(reason);
  const policy = refused ? decision?.policy : undefined;
  return {
    denied: !admitted,
    wouldDeny: admitted && refused,
    rule: detail.rule ?? NO_RULE,
    reason,
    policy,
    key: refused ? (decision?.key ?? detail.keys[0]) : undefined,
    keys: detail.keys,
    degraded: decision?.degraded === true,
  };
}

/** Of rules in shadow mode, too. */
const REFUSALS: ReadonlySet<RequestVerdict['reason']> = new Set<RequestVerdict['reason']>([
  'denyList',
  'missingKey',
  'invalidCost',
  'ambiguousPath',
]);

function isRefusal(reason: RequestVerdict['reason']): boolean {
  // Of nearly every request.
  return reason !== 'limits' && REFUSALS.has(reason);
}

/** Counts by rule, reason, policy, key and time, within bounded memory. */
export class DenialTally {
  readonly total: DenialCounts = counts();
  readonly rules = new Map<string, DenialCounts>();
  readonly policies = new Map<string, DenialCounts>();
  readonly reasons = new Map<string, number>();
  /** Of classes of clients that somebody asks about. */
  readonly classes = new Map<string, DenialCounts>();
  /** While Redis was away. */
  readonly degraded: DenialCounts = counts();
  private readonly keys = new Map<string, DeniedKey>();
  private slices: TimeSlice[] = [];
  private sliceMs = MINUTE_MS;
  private lastRule = NO_RULE;
  private ofLastRule: DenialCounts | undefined;
  private readonly forgotten = { all: 0, denied: 0 };

  add(verdict: RequestVerdict, atMs: number): void {
    addTo(this.total, verdict);
    addTo(this.ofRule(verdict.rule), verdict);
    addTo(this.sliceAt(atMs), verdict);
    if (verdict.degraded) addTo(this.degraded, verdict);
    if (verdict.denied || verdict.wouldDeny) this.addDenial(verdict);
  }

  addToClass(name: string, verdict: RequestVerdict): void {
    addTo(entryOf(this.classes, name), verdict);
  }

  /** Most requests are of the same rule as the one before. */
  private ofRule(rule: string): DenialCounts {
    if (this.ofLastRule !== undefined && rule === this.lastRule) return this.ofLastRule;
    this.lastRule = rule;
    this.ofLastRule = entryOf(this.rules, rule);
    return this.ofLastRule;
  }

  private addDenial({ denied, reason, policy, key }: RequestVerdict): void {
    this.reasons.set(reason, (this.reasons.get(reason) ?? 0) + 1);
    if (policy !== undefined) {
      const counted = entryOf(this.policies, policy);
      counted[denied ? 'denied' : 'wouldDeny'] += 1;
    }
    if (key !== undefined) this.keyOf(policy ?? reason, key)[denied ? 'denied' : 'wouldDeny'] += 1;
  }

  /** Those that were refused most often first, also in shadow mode. */
  deniedKeys(count = Infinity): readonly DeniedKey[] {
    return [...this.keys.values()].toSorted((a, b) => refusals(b) - refusals(a)).slice(0, count);
  }

  /** How many keys were refused at least once; an upper bound if there were very many. */
  get deniedKeyCount(): number {
    let count = this.forgotten.denied;
    for (const { denied } of this.keys.values()) if (denied > 0) count += 1;
    return count;
  }

  /** The same with those that were only refused in shadow mode. */
  get keyCount(): number {
    return this.keys.size + this.forgotten.all;
  }

  timeline(): { readonly sliceMs: number; readonly slices: readonly TimeSlice[] } {
    return { sliceMs: this.sliceMs, slices: this.slices };
  }

  private keyOf(policy: string, key: string): DeniedKey {
    const id = `${policy}\n${key}`;
    const known = this.keys.get(id);
    if (known !== undefined) return known;
    if (this.keys.size >= MAX_KEYS) this.forgetHalf();
    const added = { policy, key, denied: 0, wouldDeny: 0 };
    this.keys.set(id, added);
    return added;
  }

  private forgetHalf(): void {
    const byCount = [...this.keys].toSorted(([, a], [, b]) => refusals(a) - refusals(b));
    for (const [id, { denied }] of byCount.slice(0, MAX_KEYS / 2)) {
      this.keys.delete(id);
      this.forgotten.all += 1;
      if (denied > 0) this.forgotten.denied += 1;
    }
  }

  private sliceAt(atMs: number): TimeSlice {
    const fromMs = Math.floor(atMs / this.sliceMs) * this.sliceMs;
    const last = this.slices.at(-1);
    // Requests come in order.
    if (last !== undefined && last.fromMs >= fromMs) return last;
    if (this.slices.length >= MAX_SLICES) {
      this.widen();
      return this.sliceAt(atMs);
    }
    const slice = { fromMs, ...counts() };
    this.slices.push(slice);
    return slice;
  }

  private widen(): void {
    this.sliceMs *= 2;
    const wider = new Map<number, TimeSlice>();
    for (const { fromMs, requests, denied, wouldDeny } of this.slices) {
      const at = Math.floor(fromMs / this.sliceMs) * this.sliceMs;
      const slice = wider.get(at) ?? { fromMs: at, ...counts() };
      slice.requests += requests;
      slice.denied += denied;
      slice.wouldDeny += wouldDeny;
      wider.set(at, slice);
    }
    this.slices = [...wider.values()];
  }
}

function refusals({ denied, wouldDeny }: DeniedKey): number {
  return denied + wouldDeny;
}

function counts(): DenialCounts {
  return { requests: 0, denied: 0, wouldDeny: 0 };
}

function addTo(counted: DenialCounts, { denied, wouldDeny }: RequestVerdict): void {
  counted.requests += 1;
  if (denied) counted.denied += 1;
  else if (wouldDeny) counted.wouldDeny += 1;
}

function entryOf(counted: Map<string, DenialCounts>, name: string): DenialCounts {
  const known = counted.get(name);
  if (known !== undefined) return known;
  const made = counts();
  counted.set(name, made);
  return made;
}

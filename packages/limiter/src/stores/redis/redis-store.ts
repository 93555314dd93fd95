import { readClock, stopwatchMs } from '../../clock.ts';
import type { Limit } from '../../limit.ts';
import type {
  AdjustedLimit,
  Adjustment,
  Caller,
  ReservedCharge,
  Store,
  StoreEvent,
  StoreHealth,
  StoreObserver,
  StoreStatistics,
  StoreVerdict,
} from '../store.ts';
import { DenialCache } from '../local/denial-cache.ts';
import { LeaseBroker, relayed, type LeaseRelay, type LeaseRequest } from '../local/lease-broker.ts';
import { LeaseSweep } from '../local/lease-sweep.ts';
import { LeaseTable, type LeaseAnswer, type LeaseSource } from '../local/lease-table.ts';
import { localTimeUs } from '../local/store-clock.ts';
import { emptyTally } from '../local/lease-tally.ts';
import { clientPackageSettled } from './clients/client-package.ts';
import {
  addGroup,
  composedCheck,
  composedPeek,
  isAdmitted,
  type Group,
  type Shard,
  type Whole,
} from './composed-check.ts';
import type { Command } from './script.ts';
import { replyCode } from './failure-class.ts';
import { FirstCalls } from './first-calls.ts';
import { GroupDecision, type AskedGroup, type GroupAnswers } from './group-decision.ts';
import {
  keyName,
  keysOf,
  probeKeyName,
  tagOf,
  withoutPenalty,
  type Answer,
  type Question,
  type Verb,
} from './protocol.ts';
import { openShards } from './open-topology.ts';
import type { NodeOptions } from './redis-node.ts';
import { acceptOptions, type AcceptedOptions, type RedisStoreOptions } from './redis-options.ts';
import { rendezvous } from './rendezvous.ts';
import { ScriptBatches } from './script-batches.ts';
import { settleGroups } from './settle-reservation.ts';
import { allDecide, overallHealth } from './topology.ts';
import { chargesOf } from './settle-protocol.ts';

/**
 * State shared by any number of processes: the same decisions as the embedded store, each in one atomic round trip.
 *
 * @example
 * const limiter = createLimiter({ store: redisStore({ url: 'redis://localhost:6379' }) });
 */
export function redisStore(options: RedisStoreOptions): RedisStore {
  return openRedisStore(options);
}

/** `redisStore()` for a program of several processes, which may share their leases. */
export function openRedisStore(options: RedisStoreOptions, relay?: LeaseRelay): SharingRedisStore {
  const accepted = acceptOptions(options);
  const observers = new Set<StoreObserver>();
  const observe = (event: StoreEvent): void => {
    for (const observer of observers) observer(event);
  };
  let { timeoutMs } = accepted;
  const nodeOptions: NodeOptions = {
    timeoutMs: () => timeoutMs,
    observe,
    probeKey: (key) => probeKeyName(accepted.prefix, key),
  };
  const { clock } = accepted;
  const nowUs = clock === undefined ? () => '' : () => String(readClock(clock));
  const localUs = (ms: number): number => localTimeUs(clock, ms);
  const raiseTimeout = (deadlineMs: number): void => {
    if (options.timeoutMs === undefined) timeoutMs = Math.max(timeoutMs, deadlineMs);
  };
  const onLateCharge = (refunded: boolean): void => observe({ type: 'lateCharge', refunded });
  const sent = { calls: 0 };
  const shards = openShards(options, accepted, nodeOptions).map((opened) => {
    const route = (command: Command): Promise<unknown> => {
      sent.calls += 1;
      return opened.topology.route(command);
    };
    return { ...opened, batches: new ScriptBatches({ route, nowUs, localUs, onLateCharge }) };
  });
  return new ShardedStore(shards, { ...accepted, raiseTimeout, observers, sent, relay });
}

/** What `redisStore()` returns. */
export interface RedisStore extends Store {
  /**
   * Resolves as soon as every server that decides answers; rejects after `connectTimeoutMs` and names one that does
   * not: with `STORE_MISCONFIGURED` if it refuses and has to be put right, else with `STORE_UNAVAILABLE`. Without a
   * client package it rejects at once, with `CLIENT_MISSING`. Nobody has to wait for it: checks do so by themselves.
   */
  ready(): Promise<void>;
}

/** A store that takes leases for other processes of its program, too. */
export interface SharingRedisStore extends RedisStore {
  /** `sharers`: how many processes ask, each for itself. */
  leaseFor(request: LeaseRequest, sharers: number): Promise<LeaseAnswer>;
}

interface StoreParts extends AcceptedOptions {
  /** Nobody has said how long a call may take: as long as its limiter waits. */
  readonly raiseTimeout: (deadlineMs: number) => void;
  readonly observers: Set<StoreObserver>;
  readonly relay: LeaseRelay | undefined;
  /** Script calls so far, over all shards. */
  readonly sent: { readonly calls: number };
}

class ShardedStore implements SharingRedisStore {
  readonly keepsPenalties = true;
  private readonly shards: readonly Shard[];
  private readonly parts: StoreParts;
  private readonly shardOf: (key: string) => Shard;
  private readonly firstCalls: FirstCalls;
  private readonly denials: DenialCache | undefined;
  private readonly leases: LeaseTable;
  private readonly broker: LeaseBroker;
  private readonly sweep = new LeaseSweep();

  constructor(shards: readonly Shard[], parts: StoreParts) {
    this.shards = shards;
    this.parts = parts;
    this.firstCalls = new FirstCalls(parts.waitForConnection ? shards : [], parts.defaults);
    this.denials = parts.denialCache ? new DenialCache() : undefined;
    const source: LeaseSource = {
      lease: (limit, want) => this.placeOf(limit).batches.lease(keyName(parts.prefix, limit), limit, want),
      returnLease: (limit, rest) =>
        this.placeOf(limit).batches.returnLease(keyName(parts.prefix, limit), limit, rest),
      nowUs: () => this.localUs(),
    };
    const tally = emptyTally();
    const { sweep } = this;
    this.leases = sweep.add(new LeaseTable(sweep.startedBy(relayed(source, parts.relay)), tally));
    this.broker = sweep.add(new LeaseBroker(sweep.startedBy(source), tally));
    const placed = rendezvous(shards);
    const [first] = shards;
    this.shardOf = shards.length === 1 && first !== undefined ? () => first : (key) => placed(tagOf(key));
  }

  async ready(): Promise<void> {
    await clientPackageSettled(this.parts.defaults.clientPackage);
    const topologies = this.shards.map(({ topology }) => topology);
    await allDecide(topologies, this.parts.defaults.connectTimeoutMs);
    this.firstCalls.end();
  }

  check(limits: readonly Limit[], cost: number, caller?: Caller): Promise<readonly StoreVerdict[]> {
    const arrival = this.leases.arrivalFor(limits) ?? this.denials?.answerFor(limits, cost);
    return arrival === undefined
      ? this.ask(limits, cost, caller)
      : this.checkAfter(arrival, limits, cost, caller);
  }

  private async checkAfter(
    arrival: Promise<void>,
    limits: readonly Limit[],
    cost: number,
    caller: Caller | undefined,
  ): Promise<readonly StoreVerdict[]> {
    await arrival;
    return (
      this.leases.decideAgain(limits, cost) ??
      this.denials?.repeat(limits, cost, this.localUs()) ??
      this.ask(limits, cost, caller)
    );
  }

  private ask(
    limits: readonly Limit[],
    cost: number,
    caller: Caller | undefined,
  ): Promise<readonly StoreVerdict[]> {
    const decided = this.decide('check', this.group(limits), { cost, caller });
    this.denials?.noteAsked(limits, cost, decided);
    return decided;
  }

  reserve(
    limits: readonly Limit[],
    cost: number,
    onCharge: (charge: ReservedCharge) => void,
    caller?: Caller,
  ): Promise<readonly StoreVerdict[]> {
    const denial = this.denials?.repeat(limits, cost, this.localUs());
    if (denial !== undefined) return Promise.resolve(denial);
    const onAdmitted: Whole['onAdmitted'] = (group, answer) =>
      chargesOf(group.limits, cost, answer).forEach(onCharge);
    return this.decide('check', this.group(limits), { cost, caller, onAdmitted });
  }

  async settle(
    id: string,
    adjustments: readonly Adjustment[],
    caller?: Caller,
  ): Promise<readonly AdjustedLimit[]> {
    const groups = this.group(adjustments.map(({ limit }) => limit));
    const { prefix } = this.parts;
    const adjusted = await this.firstCalls.ask(shardsOf(groups), caller, () =>
      settleGroups(groups, { id, prefix, adjustments }),
    );
    // What was charged on top makes no room.
    this.denials?.drop(adjustments.flatMap(({ limit, debt }) => (debt > 0 ? [] : [limit])));
    return adjusted;
  }

  checkLocally(limits: readonly Limit[], cost: number): readonly StoreVerdict[] | undefined {
    // A lease first: what this process holds was granted, whatever others were denied.
    return this.leases.decide(limits, cost) ?? this.denials?.repeat(limits, cost, this.localUs());
  }

  peek(limits: readonly Limit[], cost: number, caller?: Caller): Promise<readonly StoreVerdict[]> {
    return this.decide('peek', this.group(limits), { cost, caller });
  }

  async forget(limits: readonly Limit[], caller?: Caller): Promise<void> {
    const groups = this.group(limits);
    const deletions = groups.flatMap(({ shard, keys, limits: grouped }) => {
      const blocks = keysOf({ limits: grouped, keys }).slice(keys.length);
      // Each block by itself: while a slot moves, keys of which only some are there cannot be named together.
      const together = [keys, ...blocks.map((key) => [key])];
      return together.map((args) => () => shard.topology.route({ key: args[0] ?? '', name: 'DEL', args }));
    });
    await this.firstCalls.ask(shardsOf(groups), caller, () =>
      Promise.all(deletions.map((remove) => remove())),
    );
    // Only now: answers from before have been heard.
    this.denials?.drop(limits);
    this.leases.drop(limits);
    this.broker.drop(limits);
  }

  async release(limits: readonly Limit[]): Promise<void> {
    await Promise.all(
      limits.map((limit) => this.placeOf(limit).batches.release(keyName(this.parts.prefix, limit), limit)),
    );
  }

  expectDeadline(deadlineMs: number): void {
    this.parts.raiseTimeout(deadlineMs);
  }

  async health(): Promise<StoreHealth> {
    return overallHealth(this.shards.map(({ topology }) => topology.health()));
  }

  servers(limits?: readonly Limit[]): readonly string[] {
    if (limits === undefined) return this.shards.flatMap(({ topology }) => topology.serverNames());
    const keys = limits.map((limit) => keyName(this.parts.prefix, limit));
    return [...new Set(keys.flatMap((key) => this.shardOf(key).topology.serverNames(key)))];
  }

  observe(observer: StoreObserver): void {
    this.parts.observers.add(observer);
  }

  leaseFor(request: LeaseRequest, sharers: number): Promise<LeaseAnswer> {
    return this.broker.lease(request, sharers);
  }

  statistics(): StoreStatistics {
    return { calls: this.parts.sent.calls, leases: this.leases.statistics() };
  }

  async close(): Promise<void> {
    this.sweep.stop();
    this.firstCalls.end();
    await Promise.all([this.leases.close(), this.broker.close()]);
    await Promise.all(this.shards.map(({ topology }) => topology.close()));
  }

  private decide(
    verb: Verb,
    groups: readonly [Group, ...Group[]],
    whole: Whole,
  ): Promise<readonly StoreVerdict[]> {
    return this.firstCalls.areOver
      ? this.decideNow(verb, groups, whole)
      : this.decideFirst(verb, groups, whole);
  }

  private decideFirst(
    verb: Verb,
    groups: readonly [Group, ...Group[]],
    whole: Whole,
  ): Promise<readonly StoreVerdict[]> {
    const ask = (): Promise<readonly StoreVerdict[]> => this.decideNow(verb, groups, whole);
    return this.firstCalls.ask(shardsOf(groups), whole.caller, ask);
  }

  private decideNow(
    verb: Verb,
    groups: readonly [Group, ...Group[]],
    whole: Whole,
  ): Promise<readonly StoreVerdict[]> {
    if (groups.length === 1) return this.decideGroup(verb, groups[0], whole);
    return verb === 'check' ? composedCheck(groups, whole) : composedPeek(groups, whole);
  }

  private decideGroup(verb: Verb, group: Group, whole: Whole): Promise<readonly StoreVerdict[]> {
    return new Promise((resolve, reject) => {
      const asked = { verb, group, whole, resolve, reject };
      group.shard.batches.ask(group.lane, new GroupDecision(this.groupAnswers, asked));
    });
  }

  private readonly groupAnswers: GroupAnswers = {
    decided: (asked, question, answer) => this.groupDecided(asked, question, answer),
    failed: (asked, error) => this.groupFailed(asked, error),
  };

  private groupDecided({ verb, group, whole }: AskedGroup, question: Question, answer: Answer): void {
    const { shard, limits } = group;
    const { cost, caller } = whole;
    const { verdicts, next, reading } = answer;
    // The failure policy has answered in the meantime.
    if (caller?.isGone === true) shard.batches.giveBack(question, answer);
    if (whole.onAdmitted !== undefined && isAdmitted(answer)) whole.onAdmitted(group, answer);
    if (verb !== 'check') return;
    this.leases.noteLeft(limits, verdicts);
    // A slot may be released at any moment: its denial says nothing about the next one.
    if (
      reading === undefined ||
      this.denials === undefined ||
      limits.some(({ plan }) => plan.algorithm.slots !== undefined)
    )
      return;
    // Who took the last token need not ask to know that there is no other, unless it is given back.
    const standing = next === undefined || caller?.isGone === true ? verdicts : [next];
    this.denials.note(limits, cost, standing, reading);
  }

  /** What decides instead, if anything can. */
  private groupFailed(
    { verb, group, whole }: AskedGroup,
    error: unknown,
  ): Promise<readonly StoreVerdict[]> | undefined {
    if (replyCode(error) !== 'TRYAGAIN') return undefined;
    const { limits } = group;
    if (limits.length > 1) return this.decideOneByOne(verb, group, whole);
    // The state of a key and its block are moving, and only one of them has arrived: the limit alone decides.
    const alone = limits.map(withoutPenalty);
    return alone[0] === limits[0] ? undefined : this.decideGroup(verb, { ...group, limits: alone }, whole);
  }

  /** The slot is moving, and only some of its keys have arrived: each alone is fine. Nothing has run yet. */
  private decideOneByOne(
    verb: Verb,
    { shard, lane, limits, keys }: Group,
    whole: Whole,
  ): Promise<readonly StoreVerdict[]> {
    const each = limits.map((limit, at) => ({
      shard,
      lane,
      limits: [limit],
      keys: keys.slice(at, at + 1),
      places: [at],
    }));
    return verb === 'check' ? composedCheck(each, whole) : composedPeek(each, whole);
  }

  private localUs(): number {
    return localTimeUs(this.parts.clock, stopwatchMs());
  }

  /** Limits that one script can decide together: those whose states are in the same slot of the same shard. */
  private group(limits: readonly Limit[]): readonly [Group, ...Group[]] {
    const [first] = limits;
    if (first === undefined) throw new RangeError('a check has at least one limit');
    const groups: [Group, ...Group[]] = [this.groupOf(first, 0)];
    // Nearly every check has one limit: keep that path short.
    if (limits.length > 1)
      limits.slice(1).forEach((limit, at) => addGroup(groups, this.groupOf(limit, at + 1)));
    return groups;
  }

  private placeOf(limit: Limit): Shard {
    return this.shardOf(keyName(this.parts.prefix, limit));
  }

  private groupOf(limit: Limit, place: number): Group {
    const key = keyName(this.parts.prefix, limit);
    const shard = this.shardOf(key);
    return { shard, lane: shard.topology.laneOf(key), limits: [limit], keys: [key], places: [place] };
  }
}

function shardsOf(groups: readonly Group[]): readonly Shard[] {
  return groups.map(({ shard }) => shard);
}

// An application that checks all the time. Only the source text of these functions goes to the other process: they may
// use their arguments and nothing else.
import type fs from 'node:fs';
import type { createLimiter, FailurePolicy, Limit, Limiter, slidingWindowLog, tokenBucket } from 'spillgate';
import type { redisStore, RedisStoreOptions } from 'spillgate/redis';
import type { LeaseHolder } from '#limiter/stores/local/lease-holder.js';
import type { RedisNode } from '#limiter/stores/redis/redis-node.js';
import type { ScriptBatches } from '#limiter/stores/redis/script-batches.js';
import type { WatchedMaster } from '#limiter/stores/redis/watched-master.js';
import type { ALONE, BUDGET, LEASED, LEASED_CYCLE, LEFT, RIGHT, SHARED, SHARED_CYCLE } from './policies.ts';

/** What can be wrong with a limiter. Each of these must be found. */
export const PLANTED_BUGS = [
  'fallback without share',
  'refund in full',
  'lease without the clock bound',
  'retry after timeout',
  'lost READONLY handling',
] as const;

export type PlantedBug = (typeof PLANTED_BUGS)[number];

/** What a worker opens for one episode. */
export interface WorkerOpening {
  readonly place: RedisStoreOptions;
  readonly failurePolicy: FailurePolicy;
  readonly instances: number;
  readonly deadlineMs: number;
  readonly key: string;
  /** Its number. */
  readonly worker: number;
  /** Where everything is noted, before anybody hears of it: no crash can hide an admission. */
  readonly journal: string;
  readonly bug: PlantedBug | undefined;
}

export type ToWorker =
  | { readonly type: 'open'; readonly opening: WorkerOpening }
  | { readonly type: 'traffic'; readonly on: boolean }
  | { readonly type: 'clock'; readonly byMs: number }
  /** Answered when the store has decided, or has not for so long. */
  | { readonly type: 'recover'; readonly withinMs: number };

export interface WorkerParts {
  readonly fs: typeof fs;
  readonly createLimiter: typeof createLimiter;
  readonly tokenBucket: typeof tokenBucket;
  readonly slidingWindowLog: typeof slidingWindowLog;
  readonly redisStore: typeof redisStore;
  readonly LeaseHolder: typeof LeaseHolder;
  readonly RedisNode: typeof RedisNode;
  readonly ScriptBatches: typeof ScriptBatches;
  readonly WatchedMaster: typeof WatchedMaster;
  readonly numbers: {
    readonly SHARED: typeof SHARED;
    readonly SHARED_CYCLE: typeof SHARED_CYCLE;
    readonly ALONE: typeof ALONE;
    readonly LEASED: typeof LEASED;
    readonly LEASED_CYCLE: typeof LEASED_CYCLE;
    readonly LEFT: typeof LEFT;
    readonly RIGHT: typeof RIGHT;
    readonly BUDGET: typeof BUDGET;
  };
}

/* oxlint-disable typescript/unbound-method -- methods of prototypes are replaced, and called with the object they were called on */

/** Returns what plants one bug from now on, or none. */
export function bugs(parts: WorkerParts): (bug: PlantedBug | undefined) => void {
  const { LeaseHolder, RedisNode, ScriptBatches, WatchedMaster } = parts;
  const { refund } = ScriptBatches.prototype;
  const { latestUs } = LeaseHolder.prototype;
  const { call } = RedisNode.prototype;
  const findMaster = WatchedMaster.prototype['findMaster'];
  const renewConnection = RedisNode.prototype['renewConnection'];
  const plant: Readonly<Record<PlantedBug, () => void>> = {
    // Said by the options.
    'fallback without share': () => undefined,
    'refund in full': () => {
      // As if no time had passed since the charge.
      ScriptBatches.prototype.refund = function (refunded) {
        const own = this['parts'];
        Reflect.set(this, 'parts', { ...own, nowUs: () => String(refunded.reserved.atUs) });
        const answer = refund.call(this, refunded);
        Reflect.set(this, 'parts', own);
        return answer;
      };
    },
    'lease without the clock bound': () => {
      LeaseHolder.prototype.latestUs = () => 0;
    },
    // As clients do that send what is unanswered once more when they are connected again.
    'retry after timeout': () => {
      RedisNode.prototype.call = async function (command, asking) {
        try {
          return await call.call(this, command, asking);
        } catch {
          const connection = this['connection'];
          if (!connection.isReady()) await new Promise<void>((resolve) => connection.onReady(resolve));
          return connection.send(command, asking);
        }
      };
    },
    'lost READONLY handling': () => {
      WatchedMaster.prototype['findMaster'] = async function () {
        return this['master'] === undefined ? findMaster.call(this) : undefined;
      };
      RedisNode.prototype['renewConnection'] = () => undefined;
    },
  };
  return (bug) => {
    Object.assign(ScriptBatches.prototype, { refund });
    Object.assign(LeaseHolder.prototype, { latestUs });
    Object.assign(RedisNode.prototype, { call, renewConnection });
    Object.assign(WatchedMaster.prototype, { findMaster });
    if (bug !== undefined) plant[bug]();
  };
}

/** What Redis decided about one policy, by its own clock, whether the caller still waited or not. */
export function noteDecisions(
  { ScriptBatches, numbers }: WorkerParts,
  write: (line: readonly unknown[]) => void,
): void {
  const ask = ScriptBatches.prototype.ask;
  ScriptBatches.prototype.ask = function (lane, decision) {
    const askedUs = Number(process.hrtime.bigint() / 1000n);
    const { question } = decision;
    ask.call(this, lane, {
      question,
      resolve(answer) {
        const [limit, ...others] = question.limits;
        const [verdict] = answer.verdicts;
        if (question.verb === 'check' && others.length === 0 && limit?.policy.name === numbers.ALONE.name) {
          const allowed = verdict?.allowed === true ? 1 : 0;
          write(['decided', answer.atUs, question.cost, allowed, verdict?.remaining, askedUs]);
        }
        decision.resolve(answer);
      },
      reject: (error) => decision.reject(error),
    });
  };
}

/** What is due now, by the clock of the machine, so that all workers do the same. */
export function dueTraffic({ numbers }: WorkerParts): DueTraffic {
  const momentOf = (lengthMs: number, lateMs = 0): readonly [cycle: number, atMs: number] => {
    const nowMs = Number(process.hrtime.bigint() / 1_000_000n) - lateMs;
    return [Math.floor(nowMs / lengthMs), nowMs % lengthMs];
  };
  const { lengthMs, stages, takenAtMs, sharedAtMs } = numbers.SHARED_CYCLE;
  const takenIn: number[] = Array.from({ length: stages }, () => 0);
  const sharedTakes = (own: number): readonly SharedTake[] =>
    takenIn.flatMap((before, stage) => {
      const [cycle, atMs] = momentOf(lengthMs, (stage * lengthMs) / stages);
      if (atMs < takenAtMs) return [];
      if (atMs >= sharedAtMs) {
        const others = [0, 1, 2, 3].filter((worker) => worker !== own);
        return others.map((worker) => ({ name: `${worker}-${stage}`, cost: 20 }));
      }
      if (before === cycle) return [];
      takenIn[stage] = cycle;
      return [{ name: `${own}-${stage}`, cost: numbers.SHARED.burst }];
    });
  const leasedCosts = (): readonly number[] => {
    const { asksForMs, fullAtMs, takesForMs, cost, lengthMs: cycleMs } = numbers.LEASED_CYCLE;
    const [, atMs] = momentOf(cycleMs);
    const isQuiet = atMs >= asksForMs && (atMs < fullAtMs || atMs >= fullAtMs + takesForMs);
    return isQuiet ? [] : [cost, cost, cost];
  };
  return { sharedTakes, leasedCosts };
}

interface SharedTake {
  /** Of the key, behind that of the episode. */
  readonly name: string;
  readonly cost: number;
}

interface DueTraffic {
  sharedTakes(own: number): readonly SharedTake[];
  /** One per request. */
  leasedCosts(): readonly number[];
}

/** Asks about every policy, and notes what was admitted. */
export function traffic(
  { tokenBucket, slidingWindowLog, numbers }: WorkerParts,
  due: DueTraffic,
  write: (line: readonly unknown[]) => void,
): {
  readonly send: (limiter: Limiter, opening: WorkerOpening) => void;
  readonly settled: () => Promise<unknown>;
} {
  const nowUs = (): number => Number(process.hrtime.bigint() / 1000n);
  const shared = tokenBucket(numbers.SHARED);
  const alone = tokenBucket(numbers.ALONE);
  const leased = tokenBucket(numbers.LEASED);
  const left = tokenBucket(numbers.LEFT);
  const right = slidingWindowLog(numbers.RIGHT);
  const budget = tokenBucket(numbers.BUDGET);
  const inFlight = new Set<Promise<unknown>>();
  let turns = 0;
  const namesOf = (limits: readonly Limit[]): string => limits.map(({ policy }) => policy.name).join('+');
  const ask = async (
    limiter: Limiter,
    limits: readonly Limit[],
    cost: number,
    names = namesOf(limits),
  ): Promise<void> => {
    const askedUs = nowUs();
    if (names === numbers.BUDGET.name) write(['asked', cost]);
    const { allowed, source, degraded } = await limiter.check(limits, { cost });
    const noted = degraded ? 'degraded' : source;
    if (allowed || degraded) write(['answered', names, cost, askedUs, nowUs(), allowed ? 1 : 0, noted]);
  };
  const send = (limiter: Limiter, { key, worker: own }: WorkerOpening): void => {
    turns += 1;
    const isHeavy = turns % 4 === 0;
    const checks = [
      ...due
        .sharedTakes(own)
        .map(({ name, cost }) =>
          ask(limiter, [shared.for(`${key}-${name}`)], cost, `${numbers.SHARED.name}-${name}`),
        ),
      ask(limiter, [alone.for(key)], isHeavy ? 5 : 1),
      ask(limiter, [left.for(key), right.for(`${key}-right`)], isHeavy ? 10 : 1),
      ask(limiter, [budget.for(key)], 1),
      ...due.leasedCosts().map((cost) => ask(limiter, [leased.for(key)], cost)),
    ];
    for (const check of checks) {
      inFlight.add(check);
      void check.finally(() => inFlight.delete(check));
    }
  };
  return { send, settled: () => Promise.all(inFlight) };
}

export interface WorkerFunctions {
  readonly bugs: typeof bugs;
  readonly noteDecisions: typeof noteDecisions;
  readonly dueTraffic: typeof dueTraffic;
  readonly traffic: typeof traffic;
}

export function serveTorture(parts: WorkerParts, others: WorkerFunctions): void {
  const { createLimiter, tokenBucket, redisStore, numbers } = parts;
  const { openSync, writeSync } = parts.fs;
  const realNow = Date.now;
  let journal = 0;
  const write = (line: readonly unknown[]): void => void writeSync(journal, `${line.join(' ')}\n`);
  others.noteDecisions(parts, write);
  const plantBug = others.bugs(parts);
  const { send, settled } = others.traffic(parts, others.dueTraffic(parts), write);
  const budget = tokenBucket(numbers.BUDGET);
  let opened: { readonly opening: WorkerOpening; readonly limiter: Limiter } | undefined;
  let busy = false;
  setInterval(() => {
    if (busy && opened !== undefined) send(opened.limiter, opened.opening);
  }, 10);

  const open = (opening: WorkerOpening): void => {
    plantBug(opening.bug);
    journal = openSync(opening.journal, 'a');
    const { place, deadlineMs, failurePolicy } = opening;
    const instances = opening.bug === 'fallback without share' ? 1 : opening.instances;
    const store = redisStore({ ...place, timeoutMs: deadlineMs });
    const limiter = createLimiter({ store, failurePolicy, deadlineMs, instances });
    // Who listens is not warned of an outage.
    limiter.on('storeError', () => undefined);
    opened = { opening, limiter };
  };
  const recover = async (withinMs: number): Promise<void> => {
    if (opened === undefined) return;
    const endsAtMs = performance.now() + withinMs;
    const { limiter, opening } = opened;
    const limit = budget.for(`${opening.key}-recovery`);
    // How soon it is asked again says nothing: what counts is when it has decided.
    const pauseMs = opening.deadlineMs / 8;
    while ((await limiter.check(limit)).degraded && performance.now() < endsAtMs) {
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  };
  const obey = async (message: ToWorker): Promise<void> => {
    if (message.type === 'open') {
      const before = opened;
      open(message.opening);
      await before?.limiter.close();
      await recover(Infinity);
    }
    if (message.type === 'traffic') busy = message.on;
    if (message.type === 'traffic' && !message.on) await settled();
    if (message.type === 'clock') Date.now = () => realNow() + message.byMs;
    if (message.type === 'recover') await recover(message.withinMs);
    process.send?.('done');
  };
  process.on('disconnect', () => process.exit());
  process.on('message', (message) => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- our own test at the other end
    void obey(message as ToWorker);
  });
}

import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter, type FailurePolicy, type Limit, type Limiter, type StoreHealth } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { stopwatch } from '../running-clock.ts';
import { eventually } from '../servers.ts';
import { type Answer, Traffic } from './traffic.ts';

/** Three times the library's default: on a busy machine a server that is well may be kept from answering for that. */
const DEADLINE_MS = 150;
const HEALTH_INTERVAL_MS = 5;
const WARM_ANSWERS = 300;
const DEGRADED_ANSWERS = 100;

type Status = StoreHealth['status'];

export interface Fault {
  /** Begins the fault; resolves when it has begun. */
  readonly strike: () => Promise<unknown>;
  /** Ends it; resolves when the server could decide again. */
  readonly heal: () => Promise<unknown>;
  /** How long it lasts after the store has noticed it. Default: not at all. */
  readonly holdMs?: number;
  /** What the store should say about itself while the fault lasts. Default: it is down. */
  readonly expected?: (health: StoreHealth) => boolean;
  readonly limits?: readonly (readonly Limit[])[];
}

export interface FaultReport {
  readonly failurePolicy: FailurePolicy;
  readonly answers: readonly Answer[];
  readonly degraded: readonly Answer[];
  /** Every status in turn from when the fault has begun to its end. */
  readonly statuses: readonly Status[];
  /** `nodeDown` and `nodeUp` as they were emitted, from before the fault until the store was well again. */
  readonly transitions: readonly string[];
  readonly during: StoreHealth;
  readonly after: StoreHealth;
  /** From the end of the fault until the store decides and every server of it is up. */
  readonly recoveredAfterMs: number;
  /** Every reason that a degraded decision gave, one per line. */
  readonly causes: string;
}

/** A limiter that is connected and asked all the time, and what became of every check. */
export class FaultRun {
  readonly limiter: Limiter;
  readonly #failurePolicy: FailurePolicy;
  readonly #deadlineMs: number;
  #answers: readonly Answer[] = [];
  #lateCharges = 0;
  #traffic: Traffic | undefined;

  private constructor(limiter: Limiter, failurePolicy: FailurePolicy, deadlineMs: number) {
    this.limiter = limiter;
    this.#failurePolicy = failurePolicy;
    this.#deadlineMs = deadlineMs;
    limiter.on('lateCharge', () => {
      this.#lateCharges += 1;
    });
  }

  static async start(
    options: RedisStoreOptions,
    failurePolicy: FailurePolicy,
    deadlineMs: number = DEADLINE_MS,
  ): Promise<FaultRun> {
    const store = redisStore({ timeoutMs: deadlineMs, ...options });
    const limiter = createLimiter({ store, failurePolicy, deadlineMs });
    try {
      await store.ready();
    } catch (error) {
      await limiter.close();
      throw error;
    }
    return new FaultRun(limiter, failurePolicy, deadlineMs);
  }

  /** All answers so far, without those to what is going on now. */
  get answers(): readonly Answer[] {
    return this.#answers;
  }

  /** How many checks were charged after the failure policy had answered them; the store gives these charges back. */
  get lateCharges(): number {
    return this.#lateCharges;
  }

  /** How many checks have been answered since the present fault or event began. */
  get checks(): number {
    return this.#traffic?.answers.length ?? 0;
  }

  /** Checks all the time: before a fault, during it, and until the store decides again. */
  async suffer(fault: Fault): Promise<FaultReport> {
    const { limiter } = this;
    const { expected = ({ status }) => status === 'down' } = fault;
    const traffic = new Traffic(limiter, this.#deadlineMs, fault.limits);
    const watch = new HealthWatch(limiter);
    const { answers } = traffic;
    const transitions: string[] = [];
    const deafen = (['nodeDown', 'nodeUp'] as const).map((event) =>
      limiter.on(event, () => transitions.push(event)),
    );
    try {
      await eventually('the store decides', async () => isWell(answers) && isUp(await watch.look()));
      const struckAt = answers.length;
      await fault.strike();
      // What is done to bring a fault about may already hold the server up for a moment.
      watch.restart();
      let during = await watch.look();
      await eventually('the fault shows', async () => {
        during = await watch.look();
        return expected(during) && answers.slice(struckAt).filter(isDegraded).length >= DEGRADED_ANSWERS;
      });
      await sleep(fault.holdMs ?? 0);
      const statuses = [...watch.statuses];
      await fault.heal();
      const sinceHealed = stopwatch();
      const healedAt = answers.length;
      let after = during;
      await eventually('the store is up', async () => {
        after = await watch.look();
        return isUp(after) && !answers.slice(healedAt).every(isDegraded);
      }).finally(() => sinceHealed.stop());
      const recoveredAfterMs = sinceHealed.passedMs();
      await eventually('the store decides', () => isWell(answers.slice(healedAt)));
      await traffic.stop();
      return {
        failurePolicy: this.#failurePolicy,
        answers,
        degraded: answers.filter(isDegraded),
        statuses,
        transitions,
        during,
        after,
        recoveredAfterMs,
        causes: causesOf(answers),
      };
    } finally {
      for (const stopListening of deafen) stopListening();
      watch.stop();
      await traffic.stop();
      this.#answers = this.#answers.concat(answers);
    }
  }

  /** Checks all the time while something happens that nobody should notice. */
  async endure(event: () => Promise<unknown>, limits?: Fault['limits']): Promise<void> {
    const traffic = new Traffic(this.limiter, this.#deadlineMs, limits);
    this.#traffic = traffic;
    const { answers } = traffic;
    try {
      await eventually('the store decides', () => isWell(answers));
      await event();
      const endedAt = answers.length;
      await eventually('the store decides', () => isWell(answers.slice(endedAt)));
    } finally {
      await traffic.stop();
      this.#answers = this.#answers.concat(answers);
    }
  }

  async close(): Promise<void> {
    await this.limiter.close();
  }
}

function isDegraded({ decision }: Answer): boolean {
  return decision.degraded;
}

function isWell(answers: readonly Answer[]): boolean {
  return answers.length >= WARM_ANSWERS && !answers.slice(-WARM_ANSWERS).some(isDegraded);
}

function isUp({ status }: StoreHealth): boolean {
  return status === 'up';
}

function causesOf(answers: readonly Answer[]): string {
  const causes = answers.filter(isDegraded).map(({ decision: { cause } }) => {
    return cause instanceof Error && 'code' in cause
      ? `${String(cause.code)} ${cause.message}`
      : String(cause);
  });
  return [...new Set(causes)].join('\n');
}

/** Looks at the health again and again, and remembers each change of the status. */
class HealthWatch {
  statuses: Status[] = [];
  readonly #limiter: Limiter;
  readonly #timer: NodeJS.Timeout;

  constructor(limiter: Limiter) {
    this.#limiter = limiter;
    this.#timer = setInterval(() => void this.look(), HEALTH_INTERVAL_MS);
  }

  async look(): Promise<StoreHealth> {
    const health = await this.#limiter.health();
    if (this.statuses.at(-1) !== health.status) this.statuses.push(health.status);
    return health;
  }

  restart(): void {
    this.statuses = [];
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

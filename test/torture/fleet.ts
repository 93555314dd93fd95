// Library processes and a gateway on one Redis, and what each of them noted.
import { request, Agent } from 'node:http';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter, type FailurePolicy } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { GatewayProcess } from '../../packages/gateway/test/e2e/gateway-process.ts';
import { startBackend, type Backend } from '../../packages/gateway/test/e2e/traffic.ts';
import type { Admission, StoreDecision } from './admissions.ts';
import { watchdog } from '../redis/watchdog.ts';
import { WORKERS } from './plan.ts';
import { BUDGET, budgetPolicy, GATEWAY_POLICY, SHARED, sharedKey } from './policies.ts';
import type { TortureSetup } from './setups.ts';
import type { PlantedBug } from './worker-program.ts';
import { TortureWorker } from './worker.ts';

/** The workers and the gateway. */
export const INSTANCES = WORKERS + 1;
const DEADLINE_MS = 150;
const GATEWAY_INTERVAL_MS = 10;
/** How often the gateway is asked whether it decides without Redis. */
const METRICS_INTERVAL_MS = 200;

/** Everything that one episode left behind. */
export interface EpisodeRecord {
  /** By policy. A check of several limits is an admission of each. */
  readonly admissions: ReadonlyMap<string, readonly Admission[]>;
  readonly decisions: readonly TimedDecision[];
  /** When some process decided without Redis: from the first to the last moment. */
  readonly withoutStoreUs: number;
  /** Infinity if nobody did. */
  readonly firstWithoutStoreUs: number;
  readonly checks: number;
  readonly budget: {
    readonly asked: number;
    /** What Redis admitted, as far as anybody heard of it. */
    readonly admitted: number;
    readonly charged: number;
  };
}

/** A decision of Redis, and when a worker asked for it, by the monotonic clock of the machine. */
interface TimedDecision extends StoreDecision {
  readonly askedUs: number;
}

export class TortureFleet {
  readonly workers: TortureWorker[] = [];
  /** Processes that were started in the place of another one. */
  replaced = 0;
  private readonly setup: TortureSetup;
  private readonly failurePolicy: FailurePolicy;
  private readonly gateway: GatewayProcess;
  private readonly backend: Backend;
  private readonly bug: PlantedBug | undefined;
  private readonly folder = mkdtempSync(join(tmpdir(), 'spillgate-torture-'));
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 64 });
  private journals: string[] = [];
  private gatewayAdmissions: Admission[] = [];
  private gatewayTimer: NodeJS.Timeout | undefined;
  private watching: Promise<readonly number[]> | undefined;
  private running = false;
  private readonly gatewayAsked = new Set<Promise<void>>();
  private episodes = 0;

  private constructor(
    setup: TortureSetup,
    failurePolicy: FailurePolicy,
    parts: {
      readonly gateway: GatewayProcess;
      readonly backend: Backend;
      readonly bug: PlantedBug | undefined;
    },
  ) {
    this.setup = setup;
    this.failurePolicy = failurePolicy;
    this.gateway = parts.gateway;
    this.backend = parts.backend;
    this.bug = parts.bug;
    watchdog.hold(this.folder);
    for (let count = 0; count < WORKERS; count += 1) this.workers.push(new TortureWorker());
  }

  static async start(
    setup: TortureSetup,
    failurePolicy: FailurePolicy,
    bug?: PlantedBug,
  ): Promise<TortureFleet> {
    const backend = await startBackend();
    try {
      const gateway = await GatewayProcess.start(gatewayFile(setup, failurePolicy, backend));
      return new TortureFleet(setup, failurePolicy, { gateway, backend, bug });
    } catch (error) {
      await backend.close();
      throw error;
    }
  }

  /** All begin with another key, and each has decided once when this resolves. */
  async begin(): Promise<void> {
    this.episodes += 1;
    this.journals = [];
    this.gatewayAdmissions = [];
    this.replaced = 0;
    await Promise.all(this.workers.map(async (worker, at) => this.open(worker, at)));
    await Promise.all(this.workers.map(async (worker) => worker.tell({ type: 'traffic', on: true })));
    this.gatewayTimer = setInterval(() => this.askGateway(), GATEWAY_INTERVAL_MS);
    this.running = true;
    this.watching = this.gatewayWithoutStore();
    // An episode that fails does not wait for it.
    this.watching.catch(() => undefined);
  }

  /** Resolves when everything that was asked is answered. */
  async end(): Promise<EpisodeRecord> {
    clearInterval(this.gatewayTimer);
    await Promise.all(this.workers.map(async (worker) => worker.tell({ type: 'traffic', on: false })));
    await Promise.all(this.gatewayAsked);
    this.running = false;
    const withoutStore = (await this.watching) ?? [];
    return this.record(await this.chargedBudget(), withoutStore);
  }

  async replace(at: number): Promise<void> {
    const index = at % this.workers.length;
    const before = this.workers[index];
    const next = new TortureWorker();
    // At once: whoever strikes the same place meanwhile has to meet the new one.
    this.workers[index] = next;
    await before?.kill();
    this.replaced += 1;
    // It may take until the end of an outage; nobody waits for that.
    this.open(next, index)
      .then(async () => next.tell({ type: 'traffic', on: true }))
      .catch(() => undefined);
  }

  async stop(): Promise<void> {
    clearInterval(this.gatewayTimer);
    this.running = false;
    await Promise.all(this.workers.map(async (worker) => worker.kill()));
    await this.gateway.remove();
    this.agent.destroy();
    await this.backend.close();
    watchdog.drop(this.folder);
    rmSync(this.folder, { recursive: true, force: true });
  }

  private get key(): string {
    return `episode-${this.episodes}`;
  }

  private async open(worker: TortureWorker, at: number): Promise<void> {
    const journal = join(this.folder, `${this.episodes}-${this.journals.length}.txt`);
    this.journals.push(journal);
    const { setup, failurePolicy, key, bug } = this;
    await worker.tell({
      type: 'open',
      opening: {
        place: setup.place(at),
        failurePolicy,
        instances: INSTANCES,
        deadlineMs: DEADLINE_MS,
        key,
        worker: at,
        journal,
        bug,
      },
    });
  }

  private askGateway(): void {
    const askedUs = nowUs();
    const asked = new Promise<void>((resolve) => {
      const { port } = this.gateway;
      const options = {
        port,
        host: '127.0.0.1',
        agent: this.agent,
        headers: { 'x-user': sharedKey(this.key, 0, 0) },
      };
      const sent = request(options, (response) => {
        if (response.statusCode === 200) {
          this.gatewayAdmissions.push({ cost: 1, askedUs, answeredUs: nowUs() });
        }
        response.resume().once('close', resolve);
      });
      sent.once('error', () => resolve());
      sent.end();
    }).finally(() => this.gatewayAsked.delete(asked));
    this.gatewayAsked.add(asked);
  }

  /** The moments between which the gateway decided without Redis, until the episode ends. */
  private async gatewayWithoutStore(): Promise<readonly number[]> {
    const moments: number[] = [];
    let before = await this.gatewayFallbacks();
    let beforeUs = nowUs();
    while (this.running) {
      await sleep(METRICS_INTERVAL_MS);
      const count = await this.gatewayFallbacks();
      const atUs = nowUs();
      if (count > before) moments.push(beforeUs, atUs);
      before = count;
      beforeUs = atUs;
    }
    return moments;
  }

  private async gatewayFallbacks(): Promise<number> {
    const text = await (await fetch(`${this.gateway.adminUrl}/metrics`)).text();
    const rows = text.matchAll(
      /^spillgate_decisions_total\{.*source="(?:fallback|failurePolicy)".*\} (\d+)$/gmu,
    );
    return [...rows].reduce((sum, [, count]) => sum + Number(count), 0);
  }

  private async chargedBudget(): Promise<number> {
    const limiter = createLimiter({
      store: redisStore(this.setup.place(0)),
      failurePolicy: 'failClosed',
      deadlineMs: 10_000,
    });
    try {
      const { remaining } = await limiter.peek(budgetPolicy.for(this.key));
      return BUDGET.burst - remaining;
    } finally {
      await limiter.close();
    }
  }

  private record(charged: number, gatewayWithoutStore: readonly number[]): EpisodeRecord {
    const admissions = new Map<string, Admission[]>([
      [sharedKey(SHARED.name, 0, 0), [...this.gatewayAdmissions]],
    ]);
    const decisions: TimedDecision[] = [];
    const withoutStore: number[] = [...gatewayWithoutStore];
    const budget = { asked: 0, admitted: 0, charged };
    let checks = this.gatewayAdmissions.length;
    for (const [kind, ...rest] of this.journals.flatMap(linesOf)) {
      if (kind === 'asked') budget.asked += Number(rest[0]);
      if (kind === 'decided') decisions.push(toDecision(rest));
      if (kind !== 'answered') continue;
      const [names = '', cost, askedUs, answeredUs, allowed, noted] = rest;
      checks += 1;
      if (noted === 'degraded') withoutStore.push(Number(askedUs), Number(answeredUs));
      if (allowed !== '1') continue;
      const admission = { cost: Number(cost), askedUs: Number(askedUs), answeredUs: Number(answeredUs) };
      if (names === BUDGET.name && noted !== 'degraded') budget.admitted += admission.cost;
      for (const name of names.split('+')) {
        const known = admissions.get(name);
        if (known === undefined) admissions.set(name, [admission]);
        else known.push(admission);
      }
    }
    const [first, last] = rangeOf(withoutStore);
    const withoutStoreUs = Math.max(0, last - first);
    return { admissions, decisions, withoutStoreUs, firstWithoutStoreUs: first, checks, budget };
  }
}

function toDecision([atUs, cost, allowed, remaining, askedUs]: readonly string[]): TimedDecision {
  return {
    atUs: Number(atUs),
    cost: Number(cost),
    allowed: allowed === '1',
    remaining: Number(remaining),
    askedUs: Number(askedUs),
  };
}

function rangeOf(moments: readonly number[]): readonly [number, number] {
  let [least, most] = [Infinity, -Infinity];
  for (const moment of moments) {
    least = Math.min(least, moment);
    most = Math.max(most, moment);
  }
  return [least, most];
}

/** A process that was killed may have left half a line, or have noted nothing yet. */
function linesOf(file: string): readonly string[][] {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => line.split(' '));
}

export function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

function gatewayFile({ settings }: TortureSetup, failurePolicy: FailurePolicy, { url }: Backend): string {
  return `
server: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:0" }
backend: { url: "${url}" }
redis: { ${settings}, read_timeout: ${DEADLINE_MS}ms }
logging: { access_log_enabled: false, decision_log: "off" }
rate_limit:
  deadline: ${DEADLINE_MS}ms
  failure_policy: ${failurePolicy}
  instances: ${INSTANCES}
  policies: { ${SHARED.name}: ${GATEWAY_POLICY} }
  rules: [{ name: all, match: {}, key: { type: header, header_name: X-User }, policies: [${SHARED.name}] }]
`;
}

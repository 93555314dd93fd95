import cluster, { type Worker } from 'node:cluster';
import type { AddressInfo } from 'node:net';
import { AggregatorRegistry } from 'prom-client';
import type { AdminMetrics } from '../admin/endpoint.ts';
import { formatProblem, type ConfigProblem } from '../config/problem.ts';
import type { ProcessActivity } from '../fleet/fleet-member.ts';
import type { Log } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { TrafficSummary } from '../telemetry/traffic-tally.ts';
import {
  closeUntakenOnExit,
  isOurs,
  type FileInUse,
  type WorkerQuestion,
  type ToPrimary,
  type ToWorker,
} from './worker-link.ts';
import type { SettingsMessage } from './instance-settings.ts';
import { answerLease, type LeaseForWorkers } from './shared-leases.ts';

export interface FleetOptions {
  readonly log: Log;
  /** What operators gave to single keys so far: a new worker starts with it. */
  readonly settings: () => SettingsMessage;
  /** How an operator switched maintenance; undefined if nobody did. */
  readonly maintenance: () => boolean | undefined;
  /** The file of the configuration in use: workers read it instead of the one on the disk. */
  readonly fileText: () => string | undefined;
  /** Takes leases that the workers share. */
  readonly lease: LeaseForWorkers;
}

const ANSWER_WITHIN_MS = 5000;
/** A worker with a new configuration waits for its store, for the longest `redis.dial_timeout` at most. */
const STORE_WITHIN_MS = 60_000;
const FIRST_RESTART_MS = 100;
const MAX_RESTART_MS = 30_000;
/** A worker that lived so long has not failed at its start. */
const STEADY_MS = 60_000;
/** On top of the deadline that workers keep themselves. */
const KILL_AFTER_MS = 2000;
/** Nobody waits for the answer, only for the exit. A worker hears of it only when it is ready. */
const DRAIN: ToWorker = { spillgate: 'ask', id: 0, question: 'drain' };

/** What goes with a question. */
type AskedAlong = FileInUse & { readonly detail?: unknown };

/** A worker could not start, for a reason that will not go away. */
export class WorkerFailed extends Error {}

/** The workers that share the port, and the process that looks after them. */
export class WorkerFleet {
  private readonly options: FleetOptions;
  private readonly workers = new Set<Worker>();
  /** Those that answer. */
  private readonly ready = new Set<Worker>();
  /** They finish what they have begun, and nobody takes their place. */
  private readonly leaving = new Set<Worker>();
  private readonly waiting = new Map<number, (value: unknown) => void>();
  private nextId = 1;
  private failures = 0;
  private restarting = 0;
  private wanted = 0;
  private stopping = false;
  private at: AddressInfo | undefined;

  constructor(options: FleetOptions) {
    this.options = options;
  }

  /** Resolves when all of them take requests. */
  async start(count: number): Promise<void> {
    this.wanted = count;
    const started = await Promise.all(Array.from({ length: count }, async () => this.fork()));
    [this.at] = started;
  }

  /** Where clients connect. */
  address(): AddressInfo {
    if (this.at === undefined) throw new Error('the workers do not listen yet');
    return this.at;
  }

  /**
   * Every worker does of a reload what can go wrong. Answers with what does: then none of them has changed anything.
   */
  async prepare(fileText: string | undefined): Promise<readonly ConfigProblem[]> {
    const answers = await this.askStaying('prepare', { fileText });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what gateway.prepareReload() gave in a worker
    const problems = (answers as readonly (readonly ConfigProblem[])[]).flat();
    if (problems.length > 0) await this.abort();
    // All of them met the same.
    return [...new Map(problems.map((problem) => [formatProblem(problem), problem])).values()];
  }

  /** What was prepared is not wanted. */
  async abort(): Promise<void> {
    await this.askStaying('abort');
  }

  /** Every worker takes the configuration in use into use. */
  async reload(): Promise<void> {
    const answers = await this.askStaying('reload');
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what gateway.address() gave in a worker
    this.at = (answers as readonly AddressInfo[])[0] ?? this.at;
  }

  /** Starts what is missing, and lets the others finish. Resolves when so many take requests. */
  async resize(count: number, drainWithinMs: number): Promise<void> {
    if (this.stopping) return;
    const { log } = this.options;
    this.wanted = count;
    const staying = this.staying();
    for (const worker of staying.slice(count)) this.dismiss(worker, drainWithinMs);
    // Those that are about to be started again are not missing.
    const missing = count - staying.length - this.restarting;
    const forks = Array.from({ length: Math.max(0, missing) }, async () =>
      this.fork().catch((err: unknown) => log.error({ err }, 'a worker could not be started')),
    );
    await Promise.all(forks);
  }

  /** The answers of all workers that give one in time. A worker that is starting or ending gives none. */
  async ask(question: WorkerQuestion, detail?: unknown): Promise<readonly unknown[]> {
    return this.askAll([...this.ready], question, { detail });
  }

  /** What each worker has decided. */
  async activities(): Promise<readonly ProcessActivity[]> {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what gateway.processActivity() gave in a worker
    return (await this.ask('activity')) as readonly ProcessActivity[];
  }

  useSettings(settings: SettingsMessage): void {
    for (const worker of this.workers) tell(worker, { spillgate: 'settings', settings });
  }

  switchMaintenance(enabled: boolean | undefined): void {
    for (const worker of this.workers) tell(worker, { spillgate: 'maintenance', enabled });
  }

  async closePort(): Promise<void> {
    await this.ask('closePort');
  }

  /** Every worker finishes its requests and exits; one that does not exit in time is killed. */
  async drain(withinMs: number): Promise<void> {
    this.stopping = true;
    const ended = [...this.workers].map(async (worker) => exitOf(worker));
    // All of them before the first one drains: a client that it tells to reconnect would find a port that is about to
    // close.
    await this.closePort();
    for (const worker of this.workers) tell(worker, DRAIN);
    const timer = setTimeout(() => {
      for (const worker of this.workers) worker.process.kill('SIGKILL');
    }, withinMs + KILL_AFTER_MS);
    await Promise.all(ended);
    clearTimeout(timer);
  }

  /** A worker that only finishes its requests needs no new configuration. */
  private async askStaying(question: WorkerQuestion, file?: AskedAlong): Promise<readonly unknown[]> {
    const workers = this.staying().filter((worker) => this.ready.has(worker));
    return this.askAll(workers, question, file);
  }

  private async askAll(
    workers: readonly Worker[],
    question: WorkerQuestion,
    file?: AskedAlong,
  ): Promise<readonly unknown[]> {
    const answers = await Promise.all(workers.map(async (worker) => this.askOne(worker, question, file)));
    return answers.filter((answer) => answer !== undefined);
  }

  private async fork(): Promise<AddressInfo> {
    const worker = cluster.fork();
    closeUntakenOnExit(worker);
    const startedMs = performance.now();
    this.workers.add(worker);
    return new Promise((resolve, reject) => {
      let ready = false;
      let fileText: string | undefined;
      worker.on('message', (message: unknown) => {
        void answerLease(worker, message, this.options.lease);
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- our own program at the other end
        const said = isOurs(message) ? (message as ToPrimary) : undefined;
        if (said?.spillgate === 'starting') {
          fileText = this.options.fileText();
          tell(worker, { spillgate: 'config', fileText, settings: this.options.settings() });
        }
        if (said?.spillgate === 'answer') this.waiting.get(said.id)?.(said.value);
        if (said?.spillgate === 'failed') reject(new WorkerFailed(said.message));
        if (said?.spillgate !== 'ready') return;
        ready = true;
        this.ready.add(worker);
        // It listens only now, and may have missed some.
        tell(worker, { spillgate: 'settings', settings: this.options.settings() });
        tell(worker, { spillgate: 'maintenance', enabled: this.options.maintenance() });
        // Another one was taken into use before this one could hear of it.
        if (fileText !== this.options.fileText()) void this.askOne(worker, 'reload');
        if (this.stopping || this.leaving.has(worker)) tell(worker, DRAIN);
        resolve(said);
      });
      worker.once('exit', (code, signal) => {
        this.workers.delete(worker);
        this.ready.delete(worker);
        const left = this.leaving.delete(worker);
        if (!ready)
          reject(
            new WorkerFailed(`a worker ended with ${signal === '' ? code : signal} before it was ready`),
          );
        if (!this.stopping && !left) this.replace(worker, performance.now() - startedMs);
      });
    });
  }

  /** Later and later, while workers end soon after their start. */
  private replace({ process: { pid, exitCode, signalCode } }: Worker, livedMs: number): void {
    const { log } = this.options;
    this.failures = livedMs >= STEADY_MS ? 0 : this.failures + 1;
    const inMs = Math.min(MAX_RESTART_MS, FIRST_RESTART_MS * 2 ** Math.max(0, this.failures - 1));
    log.error(
      { worker: pid, exitCode, signal: signalCode, restartInMs: inMs },
      'a worker has ended; another one is started',
    );
    this.restarting += 1;
    setTimeout(() => {
      this.restarting -= 1;
      if (this.stopping || this.staying().length >= this.wanted) return;
      this.fork().then(
        () => log.info({ workers: this.workers.size }, 'a worker was started again'),
        (err: unknown) => log.error({ err }, 'a worker could not be started again'),
      );
    }, inMs);
  }

  private staying(): readonly Worker[] {
    return [...this.workers].filter((worker) => !this.leaving.has(worker));
  }

  private dismiss(worker: Worker, withinMs: number): void {
    this.leaving.add(worker);
    tell(worker, DRAIN);
    const timer = setTimeout(() => worker.process.kill('SIGKILL'), withinMs + KILL_AFTER_MS);
    worker.once('exit', () => clearTimeout(timer));
  }

  private async askOne(worker: Worker, question: WorkerQuestion, file: AskedAlong = {}): Promise<unknown> {
    const id = this.nextId;
    this.nextId += 1;
    return new Promise((resolve) => {
      const end = (value: unknown): void => {
        clearTimeout(timer);
        this.waiting.delete(id);
        worker.off('exit', gone);
        resolve(value);
      };
      const gone = (): void => end(undefined);
      const waitsForStore = question === 'prepare' || question === 'reload';
      const timer = setTimeout(gone, ANSWER_WITHIN_MS + (waitsForStore ? STORE_WITHIN_MS : 0));
      worker.once('exit', gone);
      this.waiting.set(id, end);
      const named = question === 'reload' ? { fileText: this.options.fileText() } : file;
      tell(worker, { spillgate: 'ask', id, question, ...named });
    });
  }
}

function tell(worker: Worker, message: ToWorker): void {
  // A worker that is about to end has no channel any more; its exit is noticed elsewhere.
  if (worker.isConnected()) worker.send(message, () => undefined);
}

async function exitOf(worker: Worker): Promise<void> {
  await new Promise<void>((resolve) => {
    worker.once('exit', () => resolve());
  });
}

// What the admin server shows and changes where several workers share the port.
/** Workers hear only of configurations that the primary process took: what became of the others it alone knows. */
const OF_RELOADS =
  /_(?:reloads_total|last_reload_successful|config_generation|config_loaded_timestamp_seconds)$/;

/** What the primary process leases for all workers, it counts itself. */
const OF_LEASES = /^spillgate_(?:store_calls_total|lease_tokens_total)$/;

/** The metrics of all workers together, and what the primary process (`own`) knows about reloads and leases. */
export function fleetMetrics(fleet: WorkerFleet, own: Metrics): AdminMetrics {
  const together = async (): Promise<ReturnType<typeof AggregatorRegistry.aggregate>> => {
    const metrics = await fleet.ask('metrics');
    const primary = await own.registry.getMetricsAsJSON();
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what registry.getMetricsAsJSON() gave in a worker
    const lists = metrics as Parameters<typeof AggregatorRegistry.aggregate>[0][];
    lists.push(primary.filter(({ name }) => OF_RELOADS.test(name) || OF_LEASES.test(name)));
    return AggregatorRegistry.aggregate(lists);
  };
  return {
    text: async () => (await together()).metrics(),
    async read(names) {
      const registry = await together();
      return Promise.all(
        names.flatMap((name) => registry.getSingleMetric(name) ?? []).map(async (metric) => metric.get()),
      );
    },
    traffic: {
      async summary() {
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what TrafficTally.summary() gave in a worker
        return sumOf((await fleet.ask('summary')) as readonly TrafficSummary[]);
      },
    },
  };
}

type Counts = TrafficSummary['requests'];

function sumOf(summaries: readonly TrafficSummary[]): TrafficSummary {
  const rules = new Map<string, Counts>();
  for (const { rule, requests } of summaries.flatMap((summary) => summary.rules)) {
    rules.set(rule, added(rules.get(rule) ?? NO_REQUESTS, requests));
  }
  const total = (count: (summary: TrafficSummary) => number): number =>
    summaries.reduce((sum, summary) => sum + count(summary), 0);
  return {
    requests: summaries.reduce((sum, { requests }) => added(sum, requests), NO_REQUESTS),
    rules: [...rules].map(([rule, requests]) => ({ rule, requests })),
    requestsInFlight: total((summary) => summary.requestsInFlight),
    connections: total((summary) => summary.connections),
    tunnels: total((summary) => summary.tunnels),
    receivedBytes: total((summary) => summary.receivedBytes),
    sentBytes: total((summary) => summary.sentBytes),
  };
}

const NO_REQUESTS: Counts = { forwarded: 0, answered: 0, refused: 0, invalid: 0, failed: 0, aborted: 0 };

function added(one: Counts, other: Counts): Counts {
  return {
    forwarded: one.forwarded + other.forwarded,
    answered: one.answered + other.answered,
    refused: one.refused + other.refused,
    invalid: one.invalid + other.invalid,
    failed: one.failed + other.failed,
    aborted: one.aborted + other.aborted,
  };
}

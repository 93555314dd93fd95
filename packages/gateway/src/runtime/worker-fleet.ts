import cluster, { type Worker } from 'node:cluster';
import type { AddressInfo } from 'node:net';
import type { Override, OverrideNumbers } from '../admin/overrides.ts';
import type { Log } from '../telemetry/log.ts';
import { isOurs, type Question, type ToPrimary, type ToWorker } from './worker-protocol.ts';

export interface FleetOptions {
  readonly count: number;
  readonly log: Log;
  /** What operators gave to single keys so far: a new worker starts with it. */
  readonly overrides: () => readonly Override[];
  /** The file of the configuration in use: workers read it instead of the one on the disk. */
  readonly fileText: () => string | undefined;
}

const ANSWER_WITHIN_MS = 5000;
const FIRST_RESTART_MS = 100;
const MAX_RESTART_MS = 30_000;
/** A worker that lived so long has not failed at its start. */
const STEADY_MS = 60_000;
/** On top of the deadline that workers keep themselves. */
const KILL_AFTER_MS = 2000;

/** A worker could not start, for a reason that will not go away. */
export class WorkerFailed extends Error {}

/** The workers that share the port, and the process that looks after them. */
export class WorkerFleet {
  private readonly options: FleetOptions;
  private readonly workers = new Set<Worker>();
  private readonly waiting = new Map<number, (value: unknown) => void>();
  private nextId = 1;
  private failures = 0;
  private stopping = false;

  constructor(options: FleetOptions) {
    this.options = options;
  }

  /** Resolves when all of them take requests. */
  async start(): Promise<AddressInfo> {
    const started = await Promise.all(Array.from({ length: this.options.count }, async () => this.fork()));
    const [first] = started;
    if (first === undefined) throw new Error('a fleet has at least one worker');
    return first;
  }

  /** The answers of all workers that give one in time. */
  async ask(question: Question, withinMs: number = ANSWER_WITHIN_MS): Promise<readonly unknown[]> {
    const answers = await Promise.all(
      [...this.workers].map(async (worker) => this.askOne(worker, question, withinMs)),
    );
    return answers.filter((answer) => answer !== undefined);
  }

  override(policy: string, key: string, numbers: OverrideNumbers | undefined): void {
    for (const worker of this.workers) tell(worker, { spillgate: 'override', policy, key, numbers });
  }

  /** Every worker finishes what is under way and ends; who does not end in time is ended. */
  async drain(withinMs: number): Promise<void> {
    this.stopping = true;
    const ended = [...this.workers].map(async (worker) => exitOf(worker));
    for (const worker of this.workers) tell(worker, { spillgate: 'ask', id: 0, question: 'drain' });
    const timer = setTimeout(() => {
      for (const worker of this.workers) worker.process.kill('SIGKILL');
    }, withinMs + KILL_AFTER_MS);
    await Promise.all(ended);
    clearTimeout(timer);
  }

  private async fork(): Promise<AddressInfo> {
    const worker = cluster.fork();
    const startedMs = performance.now();
    this.workers.add(worker);
    return new Promise((resolve, reject) => {
      let ready = false;
      let fileText: string | undefined;
      worker.on('message', (message: unknown) => {
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- our own program at the other end
        const said = isOurs(message) ? (message as ToPrimary) : undefined;
        if (said?.spillgate === 'starting') {
          fileText = this.options.fileText();
          tell(worker, { spillgate: 'config', fileText });
        }
        if (said?.spillgate === 'answer') this.waiting.get(said.id)?.(said.value);
        if (said?.spillgate === 'failed') reject(new WorkerFailed(said.message));
        if (said?.spillgate !== 'ready') return;
        ready = true;
        for (const override of this.options.overrides()) tell(worker, { spillgate: 'override', ...override });
        // Another one was taken into use before this one could hear of it.
        if (fileText !== this.options.fileText()) void this.askOne(worker, 'reload', ANSWER_WITHIN_MS);
        resolve(said);
      });
      worker.once('exit', (code, signal) => {
        this.workers.delete(worker);
        if (!ready)
          reject(
            new WorkerFailed(`a worker ended with ${signal === '' ? code : signal} before it was ready`),
          );
        if (!this.stopping) this.replace(worker, performance.now() - startedMs);
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
    setTimeout(() => {
      if (this.stopping) return;
      this.fork().then(
        () => log.info({ workers: this.workers.size }, 'a worker was started again'),
        (err: unknown) => log.error({ err }, 'a worker could not be started again'),
      );
    }, inMs);
  }

  private async askOne(worker: Worker, question: Question, withinMs: number): Promise<unknown> {
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
      const timer = setTimeout(gone, withinMs);
      worker.once('exit', gone);
      this.waiting.set(id, end);
      const fileText = question === 'reload' ? this.options.fileText() : undefined;
      tell(worker, { spillgate: 'ask', id, question, fileText });
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

// One lease table for all workers of a gateway: the primary process leases for them, and hands out pieces. What a
// worker or the primary holds when it dies passes by itself.
import cluster, { type Worker } from 'node:cluster';
import { hash } from 'node:crypto';
import type { LeaseAnswer, LeaseRelay, LeaseRequest } from 'spillgate/internal';

/**
 * Requests wait for a lease that is on its way: at most for half of their deadline, and then the worker asks Redis
 * itself.
 */
const MAX_WAIT_MS = 250;
/** A primary process that was late is busy, or stands still: it is not asked again for so long. */
const LATE_PAUSE_MS = 1000;
/** Questions of one worker on their way. Past it, Redis is asked at once. */
const MAX_ASKED = 10_000;

/** A worker's question to the primary process. */
interface SharedLeaseQuestion {
  readonly spillgate: 'lease';
  readonly id: number;
  /** Which Redis it is about: during a reload the two processes may have different ones. */
  readonly store: string;
  readonly request: LeaseRequest;
}

interface SharedLeaseAnswer {
  readonly spillgate: 'leased';
  readonly id: number;
  /** Left out: the primary process cannot answer. */
  readonly answer?: LeaseAnswer | undefined;
}

/** Takes leases for all workers. Undefined: it has another store. */
export type LeaseForWorkers = (store: string, request: LeaseRequest) => Promise<LeaseAnswer> | undefined;

/** Tells stores apart, and what they hold of secrets to nobody. */
export function storeId(options: object): string {
  const known = storeIds.get(options);
  if (known !== undefined) return known;
  const id = hash('sha256', JSON.stringify(options));
  storeIds.set(options, id);
  return id;
}

const storeIds = new WeakMap<object, string>();

/** How a worker asks the primary process for leases; undefined in every other process. */
export function leaseRelay(store: string, deadlineMs: number): LeaseRelay | undefined {
  const { worker } = cluster;
  if (!cluster.isWorker || worker === undefined) return undefined;
  primary ??= new PrimaryProcess(worker);
  const asked = primary;
  const withinMs = Math.min(MAX_WAIT_MS, deadlineMs / 2);
  return async (request) => asked.lease(store, request, withinMs);
}

/** Answers the workers' questions for leases. */
export async function answerLease(worker: Worker, message: unknown, lease: LeaseForWorkers): Promise<void> {
  if (!isQuestion(message)) return;
  const { id, store, request } = message;
  const answer = await Promise.resolve(lease(store, request)).catch(() => undefined);
  const reply: SharedLeaseAnswer = { spillgate: 'leased', id, answer };
  // A worker that is about to end has no channel any more.
  if (worker.isConnected()) worker.send(reply, () => undefined);
}

/** One per worker process, whatever configurations it has had. */
let primary: PrimaryProcess | undefined;

class PrimaryProcess {
  private readonly worker: Worker;
  private readonly waiting = new Map<number, (answer: LeaseAnswer | undefined) => void>();
  private nextId = 1;
  private pausedUntilMs = 0;

  constructor(worker: Worker) {
    this.worker = worker;
    worker.on('message', (message: unknown) => {
      if (isAnswer(message)) this.waiting.get(message.id)?.(message.answer);
    });
    worker.once('disconnect', () => {
      for (const settle of this.waiting.values()) settle(undefined);
    });
  }

  async lease(store: string, request: LeaseRequest, withinMs: number): Promise<LeaseAnswer | undefined> {
    const { worker, waiting } = this;
    if (performance.now() < this.pausedUntilMs) return undefined;
    if (!worker.isConnected() || waiting.size >= MAX_ASKED) return undefined;
    const id = this.nextId;
    this.nextId += 1;
    return new Promise((resolve) => {
      const settle = (answer: LeaseAnswer | undefined): void => {
        clearTimeout(timer);
        waiting.delete(id);
        resolve(answer);
      };
      const timer = setTimeout(() => {
        this.pausedUntilMs = performance.now() + LATE_PAUSE_MS;
        settle(undefined);
      }, withinMs);
      waiting.set(id, settle);
      const question: SharedLeaseQuestion = { spillgate: 'lease', id, store, request };
      worker.send(question, (failure) => {
        if (failure !== null) settle(undefined);
      });
    });
  }
}

function isQuestion(message: unknown): message is SharedLeaseQuestion {
  return isOfKind(message, 'lease');
}

function isAnswer(message: unknown): message is SharedLeaseAnswer {
  return isOfKind(message, 'leased');
}

function isOfKind(message: unknown, kind: string): boolean {
  return typeof message === 'object' && message !== null && Reflect.get(message, 'spillgate') === kind;
}

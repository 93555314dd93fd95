import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import {
  createConnector,
  Http1Pool,
  READ_INTO_ONE_BUFFER,
  targetOf,
  type RequestPool,
} from '../../http-client/index.ts';

export interface Load {
  readonly url: URL;
  readonly method: string;
  /** Names and values by turns. */
  readonly headers: readonly string[];
  readonly body: string | undefined;
  readonly connections: number;
  readonly durationMs: number;
  /** Requests per second; undefined: each connection sends its next request when the last is answered. */
  readonly rate: number | undefined;
  readonly timeoutMs: number;
}

export interface LoadResult {
  readonly latency: LatencyRecord;
  /** Answers by status. */
  readonly statuses: Map<number, number>;
  /** Requests without an answer, by why. */
  readonly failures: Map<string, number>;
  sent: number;
  tookMs: number;
  /** The share of the time in which the generator itself was busy, from 0 to 1. */
  busy: number;
}

const MAX_FAILURE_KINDS = 20;

/**
 * Sends requests until the time is over, and waits for the answers in flight; after `interrupted` for none of them.
 * `result` grows in the meantime.
 */
export async function generateLoad(load: Load, result: LoadResult, interrupted: AbortSignal): Promise<void> {
  const { url, connections, timeoutMs } = load;
  const pool = new Http1Pool(url.origin, {
    connect: createConnector(targetOf(url.origin), {
      tls: {},
      timeoutMs,
      http2: false,
      onread: READ_INTO_ONE_BUFFER,
    }),
    maxConnections: connections,
    maxPending: connections,
    idleTimeoutMs: timeoutMs,
  });
  const idleBefore = performance.eventLoopUtilization();
  const startMs = performance.now();
  const next = schedule(load, startMs);
  const users = Array.from({ length: connections }, async () => {
    for (let dueMs = next(); dueMs !== undefined && !interrupted.aborted; dueMs = next()) {
      const waitMs = dueMs - performance.now();
      if (waitMs > 0 && !(await waited(waitMs, interrupted))) return;
      result.sent += 1;
      // From when it was due: a request that had to wait for a free connection was late for its user, too.
      const startedMs = load.rate === undefined ? performance.now() : dueMs;
      await sendOne(pool, load, { dueMs: startedMs, result, interrupted });
    }
  });
  interrupted.addEventListener('abort', () => void pool.destroy(), { once: true });
  try {
    await Promise.all(users);
  } finally {
    result.tookMs = performance.now() - startMs;
    result.busy = performance.eventLoopUtilization(idleBefore).utilization;
    await pool.destroy();
  }
}

export function emptyResult(): LoadResult {
  return {
    latency: new LatencyRecord(),
    statuses: new Map(),
    failures: new Map(),
    sent: 0,
    tookMs: 0,
    busy: 0,
  };
}

/** When the next request is due; undefined when there is none. */
function schedule({ rate, durationMs }: Load, startMs: number): () => number | undefined {
  const endMs = startMs + durationMs;
  let at = 0;
  return () => {
    const nowMs = performance.now();
    if (nowMs >= endMs) return undefined;
    if (rate === undefined) return nowMs;
    const dueMs = startMs + (at * 1000) / rate;
    at += 1;
    return dueMs < endMs ? dueMs : undefined;
  };
}

/** False if it was interrupted. */
async function waited(ms: number, interrupted: AbortSignal): Promise<boolean> {
  return pause(ms, true, { signal: interrupted }).catch(() => false);
}

interface BenchRequest {
  readonly dueMs: number;
  readonly result: LoadResult;
  readonly interrupted: AbortSignal;
}

async function sendOne(
  pool: RequestPool,
  load: Load,
  { dueMs, result, interrupted }: BenchRequest,
): Promise<void> {
  try {
    const status = await statusOf(pool, load);
    result.latency.add(performance.now() - dueMs);
    countOne(result.statuses, status);
  } catch (failure) {
    if (interrupted.aborted) return;
    const kind = kindOf(failure);
    const known = result.failures.has(kind) || result.failures.size < MAX_FAILURE_KINDS;
    countOne(result.failures, known ? kind : 'other');
    // A server that refuses connections would else be asked as fast as it can refuse.
    await pause(10);
  }
}

/** Once the whole response is there. */
async function statusOf(pool: RequestPool, { url, method, headers, body, timeoutMs }: Load): Promise<number> {
  return new Promise((resolve, reject) => {
    let answered = 0;
    pool.send(
      {
        method,
        path: url.pathname + url.search,
        headers:
          body === undefined ? headers : [...headers, 'content-length', String(Buffer.byteLength(body))],
        body: body === undefined ? undefined : Readable.from([body], { objectMode: false }),
        headersTimeoutMs: timeoutMs,
        bodyTimeoutMs: timeoutMs,
      },
      {
        onConnect: () => undefined,
        onHeaders: (status) => {
          answered = status;
          return true;
        },
        onData: () => true,
        onComplete: () => resolve(answered),
        onError: reject,
      },
    );
  });
}

function kindOf(failure: unknown): string {
  return failure instanceof Error && 'code' in failure ? String(failure.code) : 'unknown';
}

function countOne<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

/** Buckets grow by a hundredth, so a percentile is right to 1 %. */
const GROWTH = Math.log(1.01);
/** From a microsecond to a quarter of an hour. */
const BUCKETS = 2100;

/** Counts latencies in bounded memory, however many there are. */
export class LatencyRecord {
  private readonly buckets = new Float64Array(BUCKETS);
  count = 0;
  maxMs = 0;

  add(ms: number): void {
    const at = Math.min(BUCKETS - 1, Math.max(0, Math.floor(Math.log(Math.max(1, ms * 1000)) / GROWTH)));
    this.buckets[at] = (this.buckets[at] ?? 0) + 1;
    this.count += 1;
    this.maxMs = Math.max(this.maxMs, ms);
  }

  /** The latency that this share of requests did not exceed; 0 without requests. */
  percentile(share: number): number {
    const wanted = Math.ceil(this.count * share);
    let seen = 0;
    for (const [at, count] of this.buckets.entries()) {
      seen += count;
      if (count > 0 && seen >= wanted) return Math.min(this.maxMs, Math.exp((at + 1) * GROWTH) / 1000);
    }
    return this.maxMs;
  }
}

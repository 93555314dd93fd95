import { appendFile } from 'node:fs/promises';
import {
  createConnector,
  fetchWhole,
  Http1Pool,
  READ_INTO_ONE_BUFFER,
  targetOf,
  type ClientTls,
} from '../http-client/index.ts';
import { RejectedBatch, type UsageSink } from './usage-queue.ts';

/** Readable by the owner and the group: events name clients. */
const MODE = 0o640;

/** One line of JSON per event. The file is opened for every batch, so that it may be moved away at any time. */
export function fileSink(path: string): UsageSink<object> {
  let isCut = false;
  return {
    write: async (events) => {
      const lines = events.map((event) => `${JSON.stringify(event)}\n`).join('');
      try {
        // A write that failed may have left half a line.
        await appendFile(path, isCut ? `\n${lines}` : lines, { mode: MODE });
        isCut = false;
      } catch (failure) {
        isCut = true;
        throw failure;
      }
    },
    close: () => undefined,
  };
}

export interface HttpSinkOptions {
  readonly url: string;
  readonly tls: ClientTls;
  readonly auth: { readonly header: string; readonly value: string } | undefined;
  readonly timeoutMs: number;
}

/** Less than servers usually keep a connection that nobody uses. */
const IDLE_TIMEOUT_MS = 4000;
/** What says that the events themselves are at fault. */
const REJECTING: ReadonlySet<number> = new Set([400, 413, 415, 422]);

/** CloudEvents in the batched mode of HTTP. Redirects are not followed: they would lead where nobody has checked. */
export function httpSink({ url, tls, auth, timeoutMs }: HttpSinkOptions): UsageSink<object> {
  const { origin, pathname, search } = new URL(url);
  const pool = new Http1Pool(origin, {
    connect: createConnector(targetOf(origin), {
      tls,
      timeoutMs,
      http2: false,
      onread: READ_INTO_ONE_BUFFER,
    }),
    maxConnections: 1,
    maxPending: 1,
    idleTimeoutMs: IDLE_TIMEOUT_MS,
  });
  const headers = ['content-type', 'application/cloudevents-batch+json; charset=utf-8'];
  if (auth !== undefined) headers.push(auth.header, auth.value);
  return {
    write: async (events, signal) => {
      const { status } = await fetchWhole(pool, {
        method: 'POST',
        path: pathname + search,
        headers,
        body: JSON.stringify(events),
        maxBodyBytes: () => 0,
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      });
      if (status >= 200 && status < 300) return;
      const message = `the service answered ${status}`;
      throw REJECTING.has(status) ? new RejectedBatch(message) : new Error(message);
    },
    close: () => void pool.destroy(),
  };
}

import { appendFile } from 'node:fs/promises';
import { serviceAt, type ClientTls } from '../http-client/index.ts';
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

/** What says that the events themselves are at fault. */
const REJECTING: ReadonlySet<number> = new Set([400, 413, 415, 422]);

/** CloudEvents in the batched mode of HTTP. */
export function httpSink({ url, tls, auth, timeoutMs }: HttpSinkOptions): UsageSink<object> {
  const service = serviceAt(url, { tls, timeoutMs, maxConnections: 1 });
  const headers = ['content-type', 'application/cloudevents-batch+json; charset=utf-8'];
  if (auth !== undefined) headers.push(auth.header, auth.value);
  return {
    write: async (events, signal) => {
      const { status } = await service.fetch({
        method: 'POST',
        headers,
        body: JSON.stringify(events),
        maxBodyBytes: () => 0,
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      });
      if (status >= 200 && status < 300) return;
      const message = `the service answered ${status}`;
      throw REJECTING.has(status) ? new RejectedBatch(message) : new Error(message);
    },
    close: () => void service.close(),
  };
}

import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { serviceAt, type ClientTls } from '../http-client/index.ts';
import { RejectedBatch, type UsageSink } from './usage-queue.ts';

/** Readable by the owner and the group: events name clients. */
const MODE = 0o640;
/** A pipe that nobody reads fails at once: to wait for a reader would take a thread of the process, also at its end. */
const APPEND = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;
/** How long a full pipe is left to its reader. */
const FULL_PAUSE_MS = 20;

/** One line of JSON per event. The file is opened for every batch, so that it may be moved away at any time. */
export function fileSink(path: string): UsageSink<object> {
  let isCut = false;
  return {
    write: async (events, signal) => {
      const lines = events.map((event) => `${JSON.stringify(event)}\n`).join('');
      // A write that failed may have left half a line.
      const bytes = Buffer.from(isCut ? `\n${lines}` : lines);
      const file = await open(path, APPEND, MODE);
      try {
        isCut = true;
        let written = 0;
        while (written < bytes.length) {
          const count = await writeSome(file, bytes.subarray(written));
          if (count === 0) await sleep(FULL_PAUSE_MS, undefined, { signal });
          written += count;
        }
        isCut = false;
      } finally {
        await file.close();
      }
    },
    close: () => undefined,
  };
}

/** 0 if it takes nothing now. */
async function writeSome(file: Awaited<ReturnType<typeof open>>, bytes: Buffer): Promise<number> {
  try {
    return (await file.write(bytes)).bytesWritten;
  } catch (failure) {
    if (failure instanceof Error && 'code' in failure && failure.code === 'EAGAIN') return 0;
    throw failure;
  }
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

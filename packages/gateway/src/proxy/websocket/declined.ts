import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { endToEndHeaders, headText } from './response-head.ts';

export interface DeclinedOptions {
  readonly client: Duplex;
  readonly headers: readonly string[];
  /** The response may not be silent for longer, nor the client take nothing. */
  readonly idleTimeoutMs: number;
}

const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

/** Passes on what the upstream said instead of 101, and closes the client's connection. Resolves with the bytes of the body. */
export async function relayDeclined(response: IncomingMessage, options: DeclinedOptions): Promise<number> {
  const { client, headers, idleTimeoutMs } = options;
  const status = response.statusCode ?? 502;
  const fields = endToEndHeaders(response.rawHeaders);
  const bodyless = WITHOUT_BODY.has(status);
  const chunked = !bodyless && response.headers['content-length'] === undefined;
  const framing = chunked ? ['Transfer-Encoding', 'chunked'] : [];
  client.write(headText(status, [...fields, ...headers, ...framing, 'Connection', 'close']), 'latin1');

  let bytes = 0;
  return new Promise((resolve) => {
    const timer = setTimeout(() => client.destroy(), idleTimeoutMs);
    const done = (): void => {
      clearTimeout(timer);
      response.destroy();
      resolve(bytes);
    };
    client.on('drain', () => response.resume());
    client.once('close', done);
    response.on('data', (chunk: Buffer) => {
      timer.refresh();
      bytes += chunk.length;
      const free = client.write(chunked ? chunkOf(chunk) : chunk);
      if (!free) response.pause();
    });
    response.once('end', () => client.end(chunked ? LAST_CHUNK : undefined));
    // Half a body must not look whole.
    response.once('error', () => client.destroy());
    response.once('close', () => {
      if (!response.complete) client.destroy();
    });
  });
}

const LAST_CHUNK = '0\r\n\r\n';

function chunkOf(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
}

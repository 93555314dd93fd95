import { STATUS_CODES } from 'node:http';
import type { Duplex, Readable } from 'node:stream';
import type { ResponseHead } from '../../http-client/index.ts';
import { readUpstreamHead } from '../forward/response-headers.ts';

export interface DeclinedOptions {
  readonly client: Duplex;
  /** What every answer to the client carries. */
  readonly headers: readonly string[];
  readonly requestIdHeader: string;
  /** The response may not be silent for longer, nor the client take nothing. */
  readonly idleTimeoutMs: number;
}

/** Passes on what the upstream said instead of 101, and closes the client's connection. Resolves with the bytes of the body. */
export async function relayDeclined(
  response: ResponseHead,
  body: Readable,
  options: DeclinedOptions,
): Promise<number> {
  const { client, headers, requestIdHeader, idleTimeoutMs } = options;
  const chunked = response.framing === 'chunked' || response.framing === 'close';
  const framing = chunked ? ['Transfer-Encoding', 'chunked'] : [];
  const passedOn = headersFor(response, requestIdHeader);
  client.write(
    headText(response.status, [...passedOn, ...headers, ...framing, 'Connection', 'close']),
    'latin1',
  );

  let bytes = 0;
  return new Promise((resolve) => {
    const timer = setTimeout(() => client.destroy(), idleTimeoutMs);
    const done = (): void => {
      clearTimeout(timer);
      body.destroy();
      resolve(bytes);
    };
    client.on('drain', () => body.resume());
    client.once('close', done);
    body.on('data', (chunk: Buffer) => {
      timer.refresh();
      bytes += chunk.length;
      if (!client.write(chunked ? chunkOf(chunk) : chunk)) body.pause();
    });
    body.once('end', () => client.end(chunked ? LAST_CHUNK : undefined));
    // Half a body must not look whole.
    body.once('error', () => client.destroy());
  });
}

/** What of the upstream's headers the client of a tunnel gets. */
export function headersFor({ headers }: ResponseHead, requestIdHeader: string): readonly string[] {
  const kept: string[] = [];
  const { headers: passedOn } = readUpstreamHead(headers, requestIdHeader);
  for (let at = 0; at < passedOn.length; at += 2) {
    // No trailers follow.
    if (passedOn[at]?.toLowerCase() !== 'trailer') kept.push(passedOn[at] ?? '', passedOn[at + 1] ?? '');
  }
  return kept;
}

/** The head of a response; names and values by turns. */
export function headText(status: number, headers: readonly string[]): string {
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`;
  if (!headers.some((name, at) => at % 2 === 0 && name.toLowerCase() === 'date')) {
    text += `Date: ${new Date().toUTCString()}\r\n`;
  }
  for (let at = 0; at + 1 < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${text}\r\n`;
}

const LAST_CHUNK = '0\r\n\r\n';

function chunkOf(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
}

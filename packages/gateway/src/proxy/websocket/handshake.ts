import { createHash } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { Readable, type Duplex } from 'node:stream';
import { ResponseParser, type ResponseHead, type ResponseListener } from '../../http-client/index.ts';
import { readUpstreamHead } from '../forward/headers.ts';
import type { GatewayErrorCode } from '../gateway-errors.ts';
import type { TunnelRequest } from '../context.ts';

/** What came of asking the upstream. */
export type Handshake =
  /** It agreed, as RFC 6455 says; `rest` is what it sent right after. */
  | {
      readonly outcome: 'agreed';
      readonly response: ResponseHead;
      readonly socket: Socket;
      readonly rest: Buffer;
    }
  /** It answered something else, to be passed on. */
  | {
      readonly outcome: 'declined';
      readonly response: ResponseHead;
      readonly socket: Socket;
      readonly body: Readable;
    }
  | { readonly outcome: 'failed'; readonly reason: GatewayErrorCode; readonly cause: unknown };

/** RFC 6455 §1.3 */
const KEY_SUFFIX = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const MAX_INFORMATIONAL = 10;

/** The one key of a request for a WebSocket; undefined if it is none (RFC 6455 §4.1). */
export function webSocketKey({ request, headers }: TunnelRequest): string | undefined {
  const keys = linesOf(headers, 'sec-websocket-key');
  const [key] = keys;
  const wellFormed = request.facts.method === 'GET' && keys.length === 1 && /^[\w+/]{22}==$/.test(key ?? '');
  return wellFormed ? key : undefined;
}

/** Opens a connection of its own and asks for the WebSocket. Nothing of the client's goes out but the headers. */
export async function shakeHands(
  tunnel: TunnelRequest,
  key: string,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<Handshake> {
  let socket: Socket;
  try {
    socket = await tunnel.upstream.dial();
  } catch (cause) {
    const late = cause instanceof Error && 'code' in cause && cause.code === 'CONNECT_TIMEOUT';
    return { outcome: 'failed', reason: late ? 'UPSTREAM_TIMEOUT' : 'UPSTREAM_UNREACHABLE', cause };
  }
  // It has an owner now; without a listener an error of it would end the process.
  socket.on('error', () => {});
  const handshake = await ask(tunnel, socket, { timeoutMs, signal });
  if (handshake.outcome === 'failed') socket.destroy();
  if (handshake.outcome !== 'agreed' || agrees(handshake.response, key)) return handshake;
  socket.destroy();
  const cause = new Error('The upstream sent 101, but not what RFC 6455 §4.2.2 asks for with it.');
  return { outcome: 'failed', reason: 'UPSTREAM_BROKEN', cause };
}

async function ask(
  tunnel: TunnelRequest,
  socket: Socket,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<Handshake> {
  return new Promise((resolve) => {
    const settle = (handshake: Handshake): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      resolve(handshake);
    };
    const fail = (reason: GatewayErrorCode, cause: unknown): void =>
      settle({ outcome: 'failed', reason, cause });
    const abort = (): void => fail('UPSTREAM_BROKEN', signal.reason);
    const timer = setTimeout(() => fail('UPSTREAM_TIMEOUT', undefined), timeoutMs);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    const answer = new UpgradeAnswer(socket, settle);
    answer.readAfter(handshakeText(tunnel));
  });
}

/** Header values were read by a parser that lets no line end through. */
function handshakeText({ headers, route, upstream }: TunnelRequest): string {
  let text = `GET ${route.target} HTTP/1.1\r\n`;
  if (linesOf(headers, 'host').length === 0) text += `Host: ${new URL(upstream.origin).host}\r\n`;
  for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${text}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
}

/** Reads what the upstream answers, as strictly as any other response. */
class UpgradeAnswer implements ResponseListener {
  private readonly socket: Socket;
  private readonly settle: (handshake: Handshake) => void;
  private readonly parser = new ResponseParser(this);
  private readonly body: Readable;
  private informational = 0;

  constructor(socket: Socket, settle: (handshake: Handshake) => void) {
    this.socket = socket;
    this.settle = settle;
    this.body = new Readable({ read: () => void socket.resume() }).on('error', () => {});
  }

  readAfter(requestText: string): void {
    this.parser.expect({ method: 'GET', mayUpgrade: true });
    this.socket.on('data', this.read).once('end', this.end).once('close', this.end);
    this.socket.write(requestText, 'latin1');
  }

  head(response: ResponseHead): void {
    const { socket, body } = this;
    if (response.status >= 200) {
      this.settle({ outcome: 'declined', response, socket, body });
      return;
    }
    this.informational += 1;
    if (this.informational > MAX_INFORMATIONAL) throw new Error('The upstream sent too many 1xx responses.');
  }

  data(chunk: Buffer): void {
    if (!this.body.push(chunk)) this.socket.pause();
  }

  /** Whatever else it sends is nobody's. */
  complete(): void {
    this.stop();
    this.body.push(null);
    this.socket.destroy();
  }

  upgraded(response: ResponseHead, rest: Buffer): void {
    this.stop();
    this.socket.pause();
    this.settle({ outcome: 'agreed', response, socket: this.socket, rest });
  }

  private readonly read = (chunk: Buffer): void => {
    try {
      this.parser.read(chunk, chunk.length);
    } catch (cause) {
      this.fail(cause);
    }
  };

  private readonly end = (): void => {
    try {
      this.parser.end();
    } catch (cause) {
      this.fail(cause);
    }
  };

  /** Before the head it says why there is no tunnel; behind it, half a body must not look whole. */
  private fail(cause: unknown): void {
    this.stop();
    this.settle({ outcome: 'failed', reason: 'UPSTREAM_BROKEN', cause });
    this.body.destroy(cause instanceof Error ? cause : undefined);
    this.socket.destroy();
  }

  private stop(): void {
    this.socket.off('data', this.read).off('end', this.end).off('close', this.end);
  }
}

function agrees({ status, headers }: ResponseHead, key: string): boolean {
  const upgrade = linesOf(headers, 'upgrade');
  const accept = linesOf(headers, 'sec-websocket-accept');
  const tokens = linesOf(headers, 'connection').flatMap((line) => line.split(','));
  return (
    status === 101 &&
    upgrade.length === 1 &&
    upgrade[0]?.toLowerCase() === 'websocket' &&
    tokens.some((token) => token.trim().toLowerCase() === 'upgrade') &&
    accept.length === 1 &&
    accept[0] === createHash('sha1').update(`${key}${KEY_SUFFIX}`).digest('base64')
  );
}

export function linesOf(rawHeaders: readonly string[], name: string): readonly string[] {
  const lines: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() === name) lines.push((rawHeaders[at + 1] ?? '').trim());
  }
  return lines;
}

interface DeclinedOptions {
  readonly client: Duplex;
  /** What every answer to the client carries. */
  readonly headers: readonly string[];
  readonly requestIdHeader: string;
  /** The response may not be silent for longer, nor the client take nothing. */
  readonly idleTimeoutMs: number;
}

/**
 * Passes on what the upstream said instead of 101, and closes the client's connection. Resolves with the bytes of the
 * body.
 */
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

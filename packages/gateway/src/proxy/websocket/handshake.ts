import { createHash } from 'node:crypto';
import { request as sendRequest, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { TunnelRequest } from './tunnel.ts';
import type { GatewayErrorCode } from '../gateway-errors.ts';
import { pairsOf } from './response-head.ts';

/** What came of asking the upstream. */
export type Handshake =
  /** It agreed, as RFC 6455 says; `head` is what it sent right after. */
  | {
      readonly outcome: 'agreed';
      readonly response: IncomingMessage;
      readonly socket: Socket;
      readonly head: Buffer;
    }
  /** It answered something else, to be passed on. */
  | { readonly outcome: 'declined'; readonly response: IncomingMessage; readonly socket: Socket }
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
  if (signal.aborted) {
    socket.destroy();
    return { outcome: 'failed', reason: 'UPSTREAM_BROKEN', cause: signal.reason };
  }
  const answer = await ask(tunnel, socket, { timeoutMs, signal });
  if (answer.outcome === 'failed') socket.destroy();
  if (answer.outcome !== 'agreed' || agrees(answer.response, key)) return answer;
  socket.destroy();
  const cause = new Error('The upstream sent 101, but not what RFC 6455 §4.2.2 asks for with it.');
  return { outcome: 'failed', reason: 'UPSTREAM_BROKEN', cause };
}

async function ask(
  { headers, request: { facts } }: TunnelRequest,
  socket: Socket,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<Handshake> {
  return new Promise((resolve) => {
    const request = sendRequest({
      createConnection: () => socket,
      method: 'GET',
      path: facts.path + facts.query,
      headers: [...headers, 'Connection', 'Upgrade', 'Upgrade', 'websocket'],
    });
    const settle = (handshake: Handshake): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      resolve(handshake);
    };
    const fail = (reason: GatewayErrorCode, cause: unknown): void => {
      settle({ outcome: 'failed', reason, cause });
      request.destroy();
    };
    const abort = (): void => fail('UPSTREAM_BROKEN', signal.reason);
    const timer = setTimeout(() => fail('UPSTREAM_TIMEOUT', undefined), timeoutMs);
    signal.addEventListener('abort', abort, { once: true });
    let informational = 0;
    request.on('information', ({ statusCode }) => {
      informational += 1;
      if (statusCode === 101 || informational > MAX_INFORMATIONAL) fail('UPSTREAM_BROKEN', undefined);
    });
    request.once('upgrade', (response, _socket, head) =>
      settle({ outcome: 'agreed', response, socket, head }),
    );
    request.once('response', (response) => {
      // A 101 that names no protocol comes here, as if it were an answer.
      if (response.statusCode === 101) fail('UPSTREAM_BROKEN', undefined);
      else settle({ outcome: 'declined', response, socket });
    });
    request.on('error', (cause) => fail('UPSTREAM_BROKEN', cause));
    request.end();
  });
}

function agrees({ statusCode, rawHeaders }: IncomingMessage, key: string): boolean {
  const upgrade = linesOf(rawHeaders, 'upgrade');
  const accept = linesOf(rawHeaders, 'sec-websocket-accept');
  const tokens = linesOf(rawHeaders, 'connection').flatMap((line) => line.split(','));
  return (
    statusCode === 101 &&
    upgrade.length === 1 &&
    upgrade[0]?.toLowerCase() === 'websocket' &&
    tokens.some((token) => token.trim().toLowerCase() === 'upgrade') &&
    accept.length === 1 &&
    accept[0] === createHash('sha1').update(`${key}${KEY_SUFFIX}`).digest('base64')
  );
}

export function linesOf(rawHeaders: readonly string[], name: string): readonly string[] {
  return pairsOf(rawHeaders)
    .filter(([candidate]) => candidate.toLowerCase() === name)
    .map(([, value]) => value.trim());
}

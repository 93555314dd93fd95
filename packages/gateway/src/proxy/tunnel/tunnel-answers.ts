// What a client gets that asked for a tunnel and has none.
import { STATUS_CODES } from 'node:http';
import { plainProblem } from 'spillgate/http';
import type { TunnelRequest } from '../tunnel.ts';

export const TUNNEL_REFUSALS = {
  INVALID_HANDSHAKE: { status: 400, detail: 'This is not how a WebSocket is opened (RFC 6455 §4.1).' },
  ORIGIN_NOT_ALLOWED: { status: 403, detail: 'Pages of this origin may not open a WebSocket here.' },
  TOO_MANY_TUNNELS: { status: 429, detail: 'You have as many WebSockets open as you may.' },
  UPSTREAM_UNREACHABLE: { status: 502, detail: 'The service behind the gateway could not be reached.' },
  UPSTREAM_BROKEN: {
    status: 502,
    detail: 'The service behind the gateway broke off, or did not open the WebSocket as RFC 6455 says.',
  },
  SHUTTING_DOWN: { status: 503, detail: 'The gateway is about to stop; try again.' },
  UPSTREAM_TIMEOUT: { status: 504, detail: 'The service behind the gateway did not answer in time.' },
} as const satisfies Readonly<Record<string, { readonly status: number; readonly detail: string }>>;

export type TunnelRefusal = keyof typeof TUNNEL_REFUSALS;

/** Answers with a problem (RFC 9457). */
export function refusalText(reason: TunnelRefusal, { facts, responseHeaders }: TunnelRequest): string {
  const { status, detail } = TUNNEL_REFUSALS[reason];
  const problem = { ...plainProblem(status, detail), code: reason, requestId: facts.id };
  const body = JSON.stringify(problem);
  const fields = [
    'Content-Type',
    'application/problem+json',
    'Content-Length',
    String(Buffer.byteLength(body)),
    'Connection',
    'close',
  ];
  return headText(status, [...fields, ...responseHeaders.flat()]) + body;
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

const OF_ONE_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** What of the upstream's headers the client gets: all but those of one hop, the ones that `Connection` names included. */
export function endToEndHeaders(rawHeaders: readonly string[]): string[] {
  const dropped = new Set(OF_ONE_HOP);
  for (const [name, value] of pairsOf(rawHeaders)) {
    if (name.toLowerCase() !== 'connection') continue;
    for (const token of value.split(',')) dropped.add(token.trim().toLowerCase());
  }
  return pairsOf(rawHeaders)
    .filter(([name]) => !dropped.has(name.toLowerCase()))
    .flat();
}

export function pairsOf(rawHeaders: readonly string[]): readonly (readonly [string, string])[] {
  const pairs: (readonly [string, string])[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    pairs.push([rawHeaders[at] ?? '', rawHeaders[at + 1] ?? '']);
  }
  return pairs;
}

import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { onTestFinished } from 'vitest';
import { createUpstreams } from '../../../src/proxy/upstreams/configured-upstreams.ts';
import { createTunnels } from '../../../src/proxy/tunnel/websocket-tunnels.ts';
import type { TunnelEnd, TunnelRequest, Tunnels } from '../../../src/proxy/tunnel.ts';
import type { Admission } from '../../../src/rules/gate.ts';
import type { RequestFacts } from '../../../src/rules/request-facts.ts';
import { configOf, keptLog } from '../gateway-settings.ts';
import { listen } from '../local-server.ts';

type Written = Parameters<typeof configOf>[0];

export interface Front {
  readonly port: number;
  readonly tunnels: Tunnels;
  readonly ends: readonly TunnelEnd[];
  /** Tunnels that are open now. */
  open(): number;
}

const ADMISSION: Admission = {
  admitted: true,
  headers: [],
  connectionKey: 'ann',
  backendUrl: undefined,
  timeoutMs: undefined,
  detail: { rule: undefined, keys: [], decision: undefined, shadow: false, reason: 'limits' },
};

const FACTS: RequestFacts = {
  id: 'request-1',
  method: 'GET',
  scheme: 'http',
  host: 'front.example',
  path: '/chat',
  query: '',
  headers: { raw: [], lines: () => [] },
  client: { address: '127.0.0.1', key: '127.0.0.1', from: 'peer', oddity: undefined },
};

/** The least of an HTTP front: every request for an upgrade becomes a tunnel to the upstream; the key is in `X-Key`. */
export async function startFront(upstreamUrl: string, written: Written = {}): Promise<Front> {
  const config = configOf({ ...written, backend: { url: upstreamUrl, ...written.backend } });
  const upstreams = createUpstreams(config.backend, { log: keptLog() });
  onTestFinished(async () => upstreams.close({ force: true }));
  let open = 0;
  const ends: TunnelEnd[] = [];
  const tunnels = createTunnels({
    log: keptLog(),
    traffic: {
      tunnelOpened: () => {
        open += 1;
      },
      tunnelClosed: () => {
        open -= 1;
      },
    },
  });
  const server = createServer();
  server.on('upgrade', (request, socket: Duplex, head: Buffer) => {
    const upstream = upstreams.next();
    if (upstream === undefined) throw new Error('no upstream');
    const headers = endToEnd(request.rawHeaders);
    const connectionKey = request.headers['x-key'];
    const tunnel: TunnelRequest = {
      request,
      socket,
      head,
      facts: FACTS,
      admission: { ...ADMISSION, connectionKey: typeof connectionKey === 'string' ? connectionKey : 'ann' },
      upstream,
      config,
      headers,
      path: request.url ?? '/',
      responseHeaders: [['X-Request-Id', 'request-1']],
    };
    void tunnels.open(tunnel).then((end) => ends.push(end));
  });
  const { port } = await listen(server);
  return { port, tunnels, ends, open: () => open };
}

function endToEnd(rawHeaders: readonly string[]): readonly string[] {
  const headers: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    if (!/^(?:connection|upgrade)$/i.test(name)) headers.push(name, value);
  }
  return headers;
}

/** The key of RFC 6455 §1.3, and what it has to be answered with. */
const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const ACCEPT = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=';

export const HANDSHAKE = [
  'GET /chat?room=1 HTTP/1.1',
  'Host: front.example',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  `Sec-WebSocket-Key: ${KEY}`,
  '',
  '',
].join('\r\n');

export const AGREEMENT = [
  'HTTP/1.1 101 Switching Protocols',
  'Connection: Upgrade',
  'Upgrade: websocket',
  `Sec-WebSocket-Accept: ${ACCEPT}`,
  '',
  '',
].join('\r\n');

export interface RawClient {
  readonly socket: Socket;
  /** All that it got so far. */
  text(): string;
  closed(): boolean;
}

/** A client that speaks bytes. */
export function rawClient(port: number, sends: string | Buffer): RawClient {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  const chunks: Buffer[] = [];
  let closed = false;
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
  });
  socket.on('end', () => {
    closed = true;
    socket.end();
  });
  socket.on('close', () => {
    closed = true;
  });
  socket.on('error', () => {});
  socket.write(sends);
  onTestFinished(() => {
    socket.destroy();
  });
  return { socket, text: () => Buffer.concat(chunks).toString('latin1'), closed: () => closed };
}

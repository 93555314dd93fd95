import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { createUpstreams } from '../../../src/proxy/upstreams/configured-upstreams.ts';
import { createTunnels } from '../../../src/proxy/websocket/websocket-tunnels.ts';
import type { Tunnels } from '../../../src/proxy/context.ts';
import type { FinishedRequest } from '../../../src/telemetry/traffic.ts';
import { configOf, keptLog } from '../gateway-settings.ts';
import { ADMITTED, startRig } from '../rig.ts';

type Written = Parameters<typeof configOf>[0];

export interface HttpServer {
  readonly port: number;
  readonly tunnels: Tunnels;
  readonly ends: readonly FinishedRequest[];
  /** Tunnels that are open now. */
  open(): number;
}

/** A gateway whose requests for an upgrade become tunnels to the upstream; the key is in `X-Key`. */
export async function startFront(upstreamUrl: string, written: Written = {}): Promise<HttpServer> {
  const config = configOf({ ...written, backend: { url: upstreamUrl, ...written.backend } });
  const upstreams = createUpstreams(config.backend, { log: keptLog() });
  onTestFinished(async () => upstreams.close({ force: true }));
  let open = 0;
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
  const rig = await startRig({
    origin: { url: upstreamUrl },
    config: written,
    tunnels,
    rule: ({ headers }) => ({ ...ADMITTED, connectionKey: headers.lines('x-key')[0] ?? 'ann' }),
  });
  rig.use({ upstreams });
  return { port: rig.port, tunnels, ends: rig.finished, open: () => open };
}

/** The key of RFC 6455 §1.3, and what it has to be answered with. */
const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const ACCEPT = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=';

export const HANDSHAKE = [
  'GET /chat?room=1 HTTP/1.1',
  'Host: front.example',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'X-Request-Id: request-1',
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

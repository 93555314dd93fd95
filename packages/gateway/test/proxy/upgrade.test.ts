import { expect, test, vi } from 'vitest';
import { eventually, exchange, RawClient, REFUSED, startOrigin, startRig } from './rig.ts';
import type { TunnelRequest, Tunnels } from '../../src/proxy/context.ts';
import { letArrive } from './local-server.ts';

const UPGRADE =
  'GET /chat?room=1 HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nX-Request-Id: the-id\r\n\r\n';

/** Answers 101 and closes after the first byte. */
function recordingTunnels(): Tunnels & { readonly opened: TunnelRequest[] } {
  const opened: TunnelRequest[] = [];
  return {
    opened,
    open: async (tunnel) => {
      opened.push(tunnel);
      tunnel.socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
      );
      await new Promise((resolve) => tunnel.socket.once('data', resolve));
      tunnel.socket.destroy();
      return { status: 101, reason: undefined, bytesReceived: 1, bytesSent: 2, upstreamMs: 3 };
    },
    drain: async () => undefined,
  };
}

test('a WebSocket is charged once, and handed over with everything it needs', async () => {
  const origin = await startOrigin();
  const tunnels = recordingTunnels();
  const { port, asked, finished, upstreams } = await startRig({ origin, tunnels });

  const client = await exchange(port, UPGRADE);
  expect(upstreams.inFlight).toBe(1);
  client.send('x');
  await client.untilClosed();
  await eventually(() => finished.length === 1);

  expect(client.statuses).toEqual([101]);
  expect(asked).toMatchObject([{ path: '/chat', query: '?room=1' }]);
  expect(tunnels.opened).toHaveLength(1);
  expect(tunnels.opened[0]?.request.facts).toMatchObject({ path: '/chat', query: '?room=1' });
  expect(tunnels.opened[0]?.responseHeaders).toEqual([['X-Request-Id', 'the-id']]);
  const names = tunnels.opened[0]?.headers.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase());
  expect(names).toEqual([
    'host',
    'sec-websocket-key',
    'sec-websocket-version',
    'x-forwarded-for',
    'x-forwarded-proto',
    'x-forwarded-host',
    'via',
    'x-request-id',
  ]);
  expect(finished).toMatchObject([
    {
      id: 'the-id',
      outcome: 'forwarded',
      status: 101,
      protocol: 'websocket',
      path: '/chat',
      bytesReceived: 1,
      bytesSent: 2,
    },
  ]);
  expect(upstreams.inFlight).toBe(0);
});

test.each([
  ['a refusal', { rule: () => REFUSED }, UPGRADE, [429, 'refused']],
  ['nobody who opens tunnels', { tunnels: undefined }, UPGRADE, [501, 'failed']],
  ['a path without a normal form', {}, UPGRADE.replace('/chat', '/%2e%2e'), [400, 'invalid']],
  ['a body', {}, UPGRADE.replace('Host: a', 'Host: a\r\nContent-Length: 5'), [400, 'invalid']],
  ['a gate that fails', { rule: async () => Promise.reject(new Error('broken')) }, UPGRADE, [500, 'failed']],
] as const)(
  'with %s there is no tunnel, and the client hears why',
  async (_, options, bytes, [status, outcome]) => {
    const origin = await startOrigin();
    const tunnels = recordingTunnels();
    const { port, finished } = await startRig({ origin, tunnels, ...options });

    const client = await exchange(port, bytes);
    await client.untilClosed();

    expect(client.statuses).toEqual([status]);
    expect(client.text).toMatch(/^X-Request-Id: the-id\r$/m);
    expect(tunnels.opened).toEqual([]);
    expect(origin.requests).toEqual([]);
    expect(finished).toMatchObject([{ outcome, status }]);
  },
);

test('a request for a tunnel behind another one that is not answered opens none', async () => {
  const origin = await startOrigin(() => undefined);
  const tunnels = recordingTunnels();
  const { port, asked } = await startRig({ origin, tunnels });

  const client = await exchange(port, `GET / HTTP/1.1\r\nHost: a\r\n\r\n${UPGRADE}`);
  await client.untilClosed();

  expect(tunnels.opened).toEqual([]);
  expect(asked).toHaveLength(1);
});

test('a drain leaves tunnels to those who know how to end them, and opens no new ones', async () => {
  const origin = await startOrigin();
  const tunnels = recordingTunnels();
  let drained = 0;
  let end: (() => void) | undefined;
  const rig = await startRig({
    origin,
    tunnels: {
      open: tunnels.open,
      drain: async (deadlineMs) => {
        drained = deadlineMs;
        await new Promise<void>((resolve) => (end = resolve));
        tunnels.opened[0]?.socket.destroy();
      },
    },
  });
  const client = await exchange(rig.port, UPGRADE);
  const idle = await RawClient.connect(rig.port);

  const draining = rig.proxy.drain(8000);
  // Whoever connected before the port is closed is still served; then no tunnel is opened any more.
  await vi.waitFor(() => expect(drained).toBe(8000));
  idle.send(UPGRADE);
  await idle.untilClosed();
  await letArrive();
  expect(client.closed).toBe(false);
  end?.();
  await draining;

  expect(drained).toBe(8000);
  expect(tunnels.opened).toHaveLength(1);
  expect(idle.text === '' || idle.statuses[0] === 503).toBe(true);
  await client.untilClosed();
});

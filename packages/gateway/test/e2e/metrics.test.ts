// Every metric of the table is moved from outside of a running gateway: one that nobody moves fails here.
import { createHash } from 'node:crypto';
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../../../../test/redis/servers.ts';
import type { GatewayMetric } from '../../src/telemetry/metric.ts';
import { METRICS, type MetricName } from '../../src/telemetry/metric-table.ts';
import { GatewayProcess } from './gateway-process.ts';
import { statusOf } from './traffic.ts';

let gateway: GatewayProcess;
let redis: RedisServer;
let backend: Server;
let service: Server;
/** Answers that the backend or the service hold back. */
const held: ServerResponse[] = [];
let backendIsWell = true;
let asked = 0;
/** Makes configurations differ. */
let average = 1000;

beforeAll(async () => {
  redis = await startRedis();
  backend = await listening(createServer(serveBackend));
  backend.on('upgrade', (asking: IncomingMessage, socket: Socket) => openTunnel(asking, socket));
  service = await listening(createServer(serveLimits));
  gateway = await GatewayProcess.start(config());
});

afterAll(async () => {
  await gateway.remove();
  for (const server of [backend, service]) {
    server.closeAllConnections();
    server.close();
  }
  await redis.stop();
});

function config(): string {
  average += 1;
  return `
server: { address: "127.0.0.1:0", max_connections_per_address: 20, drain_delay: 10s, drain_timeout: 1s }
admin: { address: "127.0.0.1:0" }
service: { address: "127.0.0.1:0" }
backend:
  url: "${urlOf(backend)}"
  health_check: { enabled: true, path: /health, interval: 300ms, timeout: 300ms, healthy_threshold: 1, unhealthy_threshold: 1 }
identity:
  api_keys: { keys: [{ name: ann, hash: "sha256:${'0'.repeat(64)}" }] }
  jwt:
    jwks: { url: "${urlOf(service)}/keys", refresh: 1s, allow_private_network: true }
    issuer: [ann]
    audience: [bob]
    algorithms: [ES256]
redis: { endpoints: ["127.0.0.1:${redis.port}"] }
usage_events: { enabled: true, file: /dev/null, flush_interval: 10ms }
rate_limit:
  average: ${average}
  period: 1h
  key_strategy: { type: header, header_name: X-Tenant }
  external:
    enabled: true
    http: { url: "${urlOf(service)}/limits" }
    max_concurrent_requests: 1
    circuit_breaker: { threshold: 1, reset_timeout: 1s }
  policies: { bytes: { algorithm: fixedWindow, quota: 1000000, window: 1h } }
  rules:
    - { name: tried, match: { path: /tried }, policies: [], shadow: true, deny: { keys: [tried] } }
    - { name: settled, match: { path: /settled }, policies: [bytes], cost: 100, settle: { type: responseBytes } }
`;
}

/** What moves a metric. */
interface Move {
  /** Begins it; what it returns undoes it. */
  readonly begin?: () => Promise<(() => unknown) | void> | (() => unknown);
  /** Done again and again until the metric moves. */
  readonly repeat?: () => Promise<unknown>;
  /** Another gateway than the one that all others share: this one does not survive it. */
  readonly on?: () => Promise<GatewayProcess>;
}

const aRequest: Move = { repeat: async () => ask('good') };
const aConnection: Move = { begin: async () => open(1) };
const aTunnel: Move = { begin: async () => startTunnel() };
const aReload: Move = { begin: async () => void (await gateway.reload(config())) };
const aHeldRequest: Move = { begin: async () => hold(async () => ask('good', '/hold')) };
const aFailingKey: Move = { repeat: async () => ask(`bad-${asked}`) };

const MOVES: Readonly<Record<MetricName, Move | 'constant'>> = {
  requests: aRequest,
  ownAnswers: { repeat: async () => ask('good', '/', { Host: 'a b' }) },
  shadowDenials: { repeat: async () => ask('tried', '/tried') },
  chargedCost: { repeat: async () => ask('good', '/settled') },
  settlements: { repeat: async () => ask('good', '/settled') },
  requestDuration: aRequest,
  upstreamDuration: aRequest,
  receivedBytes: { repeat: async () => ask('good', '/', {}, 'a body') },
  sentBytes: aRequest,
  requestsInFlight: aHeldRequest,
  usageEvents: aRequest,
  connections: aConnection,
  connectionsOpened: aConnection,
  connectionsRefused: { begin: async () => open(25) },
  connectionsCutOff: { repeat: async () => sendMalformed(600) },
  addressOddities: { repeat: async () => ask('good', '/', { 'X-Forwarded-For': '192.0.2.1' }) },
  tunnels: aTunnel,
  tunnelsOpened: aTunnel,
  upstreamUp: {
    begin: () => {
      backendIsWell = false;
      return () => (backendIsWell = true);
    },
  },
  upstreamInFlight: aHeldRequest,
  serviceCalls: { repeat: async () => statusOf(`http://127.0.0.1:${gateway.servicePort}/healthcheck`) },
  reloads: aReload,
  lastReloadSuccessful: {
    begin: async () => {
      await gateway.reload('nonsense: true');
      return async () => gateway.reload(config());
    },
  },
  configGeneration: aReload,
  configLoaded: aReload,
  ready: {
    on: async () => GatewayProcess.start(config()),
    begin: async () => Promise.resolve(inUse().signal('SIGTERM')),
  },
  droppedLogLines: {
    on: async () => {
      const other = await GatewayProcess.start(config());
      other.closeOutput();
      return other;
    },
    repeat: async () => statusOf(inUse().url),
  },
  build: 'constant',
  identifications: { repeat: async () => ask('good', '/', { 'X-API-Key': 'unknown' }) },
  tokenKeyFetches: aRequest,
  externalLimits: aRequest,
  externalCalls: { repeat: async () => ask(`new-${asked}`) },
  externalCallDuration: { repeat: async () => ask(`new-${asked}`) },
  externalSharedCache: { repeat: async () => ask(`new-${asked}`) },
  externalBreakerChanges: aFailingKey,
  externalRefused: { repeat: async () => ask(`routed-${asked}`) },
  externalChanges: { repeat: async () => ask('changing') },
  externalRefreshes: { repeat: async () => ask('brief') },
  externalCallsInFlight: { begin: async () => hold(async () => ask(`hold-${asked}`)) },
  externalCallsQueued: {
    begin: async () => {
      const release = await hold(async () => ask(`hold-${asked}`));
      const queued = ask(`queued-${asked}`);
      return async () => {
        await release();
        await queued;
      };
    },
  },
  externalCachedAnswers: { repeat: async () => ask(`new-${asked}`) },
  externalBreakers: aFailingKey,
  externalOpenBreakers: aFailingKey,
  externalServiceSuspended: aFailingKey,
};

/** The gateway that a move with `on` has for itself, else the one that all share. */
let own: GatewayProcess | undefined;

function inUse(): GatewayProcess {
  return own ?? gateway;
}

test.each(Object.keys(MOVES) as MetricName[])('%s', async (name) => {
  const metric: GatewayMetric = METRICS[name];
  const move = MOVES[name];
  if (move === 'constant') {
    expect(await seriesOf(metric)).toHaveLength(1);
    return;
  }
  own = await move.on?.();
  try {
    const before = await seriesOf(metric);

    const undo = await move.begin?.();

    await expect
      .poll(async () => {
        await move.repeat?.();
        return seriesOf(metric);
      })
      .not.toEqual(before);
    await undo?.();
    const isBack = metric.kind === 'gauge' && undo !== undefined && own === undefined;
    if (isBack) await expect.poll(async () => seriesOf(metric)).toEqual(before);
  } finally {
    await own?.remove();
    own = undefined;
  }
});

/** The lines of a metric: of a histogram those that count. */
async function seriesOf({ name, kind }: GatewayMetric): Promise<readonly string[]> {
  const answer = await fetch(`${inUse().adminUrl}/metrics`);
  const lines = (await answer.text()).split('\n');
  const shown = kind === 'histogram' ? `${name}_count` : name;
  return lines.filter((line) => line.startsWith(`${shown} `) || line.startsWith(`${shown}{`));
}

/** The status of one request on a connection of its own. */
async function ask(
  tenant: string,
  path = '/',
  headers: Readonly<Record<string, string>> = {},
  body = '',
): Promise<number> {
  return new Promise((resolve, reject) => {
    const { port } = gateway;
    const method = body === '' ? 'GET' : 'POST';
    const asking = request({ port, path, method, agent: false, headers: { 'X-Tenant': tenant, ...headers } });
    asking.on('error', reject);
    asking.on('response', (answer) => {
      answer.resume();
      answer.on('end', () => resolve(answer.statusCode ?? 0));
    });
    asking.end(body);
  });
}

/** Asks, and waits until the backend or the service holds the answer back; the result lets it go. */
async function hold(asking: () => Promise<number>): Promise<() => Promise<void>> {
  const answered = asking();
  await expect.poll(() => held.length).toBe(1);
  return async () => {
    for (const answer of held.splice(0)) answer.end('{}');
    await answered;
  };
}

async function open(count: number): Promise<() => void> {
  const sockets = await Promise.all(
    Array.from(
      { length: count },
      async () =>
        new Promise<Socket>((resolve) => {
          const socket = connect(gateway.port, '127.0.0.1', () => resolve(socket));
          socket.on('error', () => socket.destroy());
        }),
    ),
  );
  return () => {
    for (const socket of sockets) socket.destroy();
  };
}

/** Several at once, as fast as it can: what an address may waste comes back with time. */
async function sendMalformed(count: number): Promise<void> {
  const atOnce = 10;
  const sendOne = async (): Promise<void> =>
    new Promise((resolve) => {
      const socket = connect(gateway.port, '127.0.0.1', () => socket.write('nonsense\r\n\r\n'));
      socket.on('error', () => undefined).on('close', () => resolve());
      socket.resume();
    });
  for (let sent = 0; sent < count; sent += atOnce) await Promise.all(Array.from({ length: atOnce }, sendOne));
}

async function startTunnel(): Promise<() => void> {
  const headers = {
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
    'X-Tenant': 'good',
  };
  return new Promise((resolve, reject) => {
    const asking = request({ port: gateway.port, path: '/chat', agent: false, headers });
    asking.on('upgrade', (_answer, socket) => resolve(() => socket.destroy()));
    asking.on('error', reject);
    asking.end();
  });
}

function openTunnel({ headers }: IncomingMessage, socket: Socket): void {
  const accept = createHash('sha1')
    .update(`${headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64');
  socket.on('error', () => socket.destroy());
  socket.on('end', () => socket.end());
  socket.resume();
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
  );
}

function serveBackend(asking: IncomingMessage, answer: ServerResponse): void {
  asking.resume();
  if (asking.url === '/hold') held.push(answer);
  else if (asking.url === '/health' && !backendIsWell) answer.writeHead(500).end();
  else answer.end('ok');
}

/** Its answers depend on the first word of the tenant's name. */
function serveLimits(asking: IncomingMessage, answer: ServerResponse): void {
  let body = '';
  asking.on('data', (chunk: Buffer) => {
    body += chunk.toString();
  });
  asking.on('end', () => {
    asked += 1;
    const kind = /"(good|new|bad|routed|changing|brief|hold|queued)\b/.exec(body)?.[1];
    const limits = { average: kind === 'changing' ? asked : 10_000, burst: 10_000, period: '1s' };
    answer.setHeader('Content-Type', 'application/json');
    answer.setHeader('Cache-Control', kind === 'changing' || kind === 'brief' ? 'max-age=1' : 'max-age=60');
    if (kind === 'hold') held.push(answer);
    else if (kind === 'bad') answer.writeHead(500).end();
    else if (kind === 'routed') answer.end(JSON.stringify({ ...limits, backend_url: 'http://10.9.9.9' }));
    else answer.end(JSON.stringify(limits));
  });
}

async function listening(server: Server): Promise<Server> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return server;
}

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

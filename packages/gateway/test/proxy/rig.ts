// A proxy between raw clients and a server that records what reaches it.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Server as NetServer, type Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { onTestFinished } from 'vitest';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { stopwatch as startStopwatch } from '../../../../test/redis/running-clock.ts';
import { configSchema, type Config } from '../../src/config/config.ts';
import type { RequestTracer } from '../../src/telemetry/tracing.ts';
import type { ConfigSnapshot, Tunnels } from '../../src/proxy/context.ts';
import { startProxy, type Proxy } from '../../src/proxy/start-proxy.ts';
import { readUpstreamTls } from '../../src/proxy/upstreams/configured-upstreams.ts';
import { PooledUpstream, type Upstreams } from '../../src/proxy/upstreams/pooled-upstream.ts';
import type {
  Admission,
  RuleEngine,
  Refusal,
  RuleOutcome,
  DelayListener,
} from '../../src/rules/rule-outcome.ts';
import type { RequestFacts } from '../../src/rules/request-facts.ts';
import type { Log } from '../../src/telemetry/log.ts';
import type { FinishedRequest } from '../../src/telemetry/traffic.ts';

export interface RecordedRequest {
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  header(name: string): string | undefined;
  body: string;
  complete: boolean;
}

export interface Origin {
  readonly port: number;
  readonly url: string;
  readonly server: Server;
  readonly requests: RecordedRequest[];
  /** Connections that were opened to it. */
  connections: number;
}

export type Respond = (request: IncomingMessage, response: ServerResponse) => void;

/** A server that records every request; without `respond` it answers 200 with `ok` after the body. */
export async function startOrigin(respond?: Respond): Promise<Origin> {
  const requests: RecordedRequest[] = [];
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    const recorded = record(request);
    requests.push(recorded);
    if (respond !== undefined) {
      respond(request, response);
      return;
    }
    request.on('end', () => response.end('ok'));
  });
  const origin: Origin = { port: 0, url: '', server, requests, connections: 0 };
  server.on('connection', () => (origin.connections += 1));
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    requests.push({ ...NOT_HTTP, body: `not HTTP: ${error.code}` });
    socket.destroy();
  });
  const port = await listen(server);
  return Object.assign(origin, { port, url: `http://127.0.0.1:${port}` });
}

const NOT_HTTP: RecordedRequest = {
  method: 'NOT-HTTP',
  url: '',
  rawHeaders: [],
  header: () => undefined,
  body: '',
  complete: false,
};

export async function listen(server: Server | NetServer): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    if ('closeAllConnections' in server) server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

function record(request: IncomingMessage): RecordedRequest {
  const recorded: RecordedRequest = {
    method: request.method ?? '',
    url: request.url ?? '',
    rawHeaders: request.rawHeaders,
    header: (name) => {
      const lines = request.headersDistinct[name.toLowerCase()];
      return lines?.join(', ');
    },
    body: '',
    complete: false,
  };
  request.setEncoding('latin1');
  request.on('data', (chunk: string) => (recorded.body += chunk));
  request.on('end', () => (recorded.complete = true));
  request.on('error', () => undefined);
  return recorded;
}

/** Upstreams made of one server, over the pools that the gateway uses. */
export function oneUpstream(url: string, maxConnections = 64): Upstreams & { readonly inFlight: number } {
  const { backend } = configOf();
  const upstream = new PooledUpstream(url, {
    settings: { ...backend, max_conns: maxConnections, backend_protocol: 'auto' },
    tls: readUpstreamTls(backend.transport.tls),
    dialTimeoutMs: 5000,
  });
  return {
    get inFlight() {
      return upstream.inFlight;
    },
    next: () => upstream,
    health: () => [],
    close: async () => upstream.close({ force: true }),
  };
}

const DETAIL = {
  rule: undefined,
  keys: [],
  decision: undefined,
  shadow: false,
  reason: 'unlimited',
} as const;

export const ADMITTED: Admission = {
  admitted: true,
  headers: [],
  connectionKey: undefined,
  backendUrl: undefined,
  timeoutMs: undefined,
  detail: DETAIL,
};

export const REFUSED: Refusal = {
  admitted: false,
  problem: {
    type: 'about:blank',
    title: 'Too Many Requests',
    status: 429,
    detail: 'The policy "api" admits this request again in 7 s.',
  },
  headers: [['Retry-After', '7']],
  detail: { ...DETAIL, reason: 'limits' },
};

export interface Rig {
  readonly proxy: Proxy;
  readonly port: number;
  readonly url: string;
  readonly upstreams: ReturnType<typeof oneUpstream>;
  /** What the gate was asked about. */
  readonly asked: RequestFacts[];
  readonly finished: FinishedRequest[];
  readonly opened: { connections: number };
  /** Why connections were closed at once. */
  readonly refused: readonly string[];
  /** Why connections were cut off. */
  readonly cutOff: readonly string[];
  /** What was odd about who asked. */
  readonly oddities: readonly string[];
  /** Changes the live configuration. */
  use(snapshot: Partial<ConfigSnapshot>): void;
  /** The same as a reload: also what the port and its connections are made with. Answers with the port. */
  readonly reload: (settings: object, secureContext?: TlsOptions) => Promise<number>;
}

export interface RigOptions {
  readonly origin: { readonly url: string };
  readonly config?: object | undefined;
  readonly rule?:
    | ((facts: RequestFacts, waiter?: DelayListener) => RuleOutcome | Promise<RuleOutcome>)
    | undefined;
  readonly secureContext?: TlsOptions | undefined;
  readonly tunnels?: Tunnels | undefined;
  readonly tracer?: RequestTracer['start'] | undefined;
  readonly log?: Log | undefined;
  /** To the origin. */
  readonly maxConnections?: number | undefined;
}

const SILENT: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

export function configOf(settings: object = {}): Config {
  const given = settings as { server?: object; backend?: object };
  return configSchema.parse({ ...given, server: { address: '127.0.0.1:0', ...given.server } });
}

export async function startRig(options: RigOptions): Promise<Rig> {
  const asked: RequestFacts[] = [];
  const finished: FinishedRequest[] = [];
  const opened = { connections: 0 };
  const refused: string[] = [];
  const cutOff: string[] = [];
  const oddities: string[] = [];
  const upstreams = oneUpstream(options.origin.url, options.maxConnections);
  const ruleEngine: RuleEngine = {
    decide: (facts, waiter) => {
      asked.push(facts);
      return options.rule?.(facts, waiter) ?? ADMITTED;
    },
  };
  let snapshot: ConfigSnapshot = {
    config: configOf(options.config),
    ruleEngine,
    upstreams,
    tracer: options.tracer,
  };
  const proxy = await startProxy({
    snapshot: () => snapshot,
    traffic: {
      started: () => undefined,
      finished: (request) => finished.push(request),
      connectionOpened: () => (opened.connections += 1),
      count: (metric, ...[label = '']) => {
        if (metric === 'connectionsRefused') refused.push(label);
        else if (metric === 'connectionsCutOff') cutOff.push(label);
        else oddities.push(label);
      },
      connectionClosed: () => (opened.connections -= 1),
      tunnelOpened: () => undefined,
      tunnelClosed: () => undefined,
    },
    log: options.log ?? SILENT,
    secureContext: options.secureContext,
    tunnels: options.tunnels,
  });
  onTestFinished(async () => {
    await proxy.close();
    await upstreams.close();
  });
  const { port } = proxy.address();
  return {
    proxy,
    port,
    url: `http://127.0.0.1:${port}`,
    upstreams,
    asked,
    finished,
    opened,
    refused,
    cutOff,
    oddities,
    use: (part) => (snapshot = { ...snapshot, ...part }),
    reload: async (settings, secureContext) => {
      const config = configOf(settings);
      const prepared = await proxy.prepare(config, secureContext);
      snapshot = { ...snapshot, config };
      prepared.commit();
      return proxy.address().port;
    },
  };
}

/** A client that says exactly what it is told, and keeps what it hears. */
export class RawClient {
  readonly socket: Socket;
  text = '';
  closed = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => (this.text += chunk));
    socket.on('close', () => (this.closed = true));
    socket.on('error', () => undefined);
  }

  static async connect(port: number, allowHalfOpen = false, localAddress?: string): Promise<RawClient> {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen, localAddress });
    const client = new RawClient(socket);
    await once(socket, 'connect');
    onTestFinished(() => void socket.destroy());
    return client;
  }

  send(text: string): this {
    this.socket.write(text, 'latin1');
    return this;
  }

  /** The statuses of all final responses so far. */
  get statuses(): readonly number[] {
    return [...this.text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]));
  }

  async until(condition: (client: this) => boolean): Promise<this> {
    await eventually(
      () => condition(this),
      () => `the client got ${JSON.stringify(this.text.slice(0, 500))}`,
    );
    return this;
  }

  async untilClosed(): Promise<this> {
    return this.until(({ closed }) => closed);
  }
}

/** Sends bytes on a connection of their own, and waits for `count` responses or the end of the connection. */
export async function exchange(port: number, text: string, count = 1): Promise<RawClient> {
  const client = await RawClient.connect(port);
  client.send(text);
  return client.until(({ closed, statuses }) => closed || statuses.length >= count);
}

/** Milliseconds of this process's own time since now: a machine that is busy with others does not count. */
export function stopwatch(): () => number {
  const { passedMs, stop } = startStopwatch();
  onTestFinished(stop);
  return passedMs;
}

const POLL_MS = 5;

export async function eventually(condition: () => boolean, describe: () => string = () => ''): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`it did not happen in time: ${describe()}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

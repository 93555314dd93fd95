// A decision service on a port of its own, without a process around it.
import { request, type Agent } from 'node:http';
import { onTestFinished } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { formatProblem } from '../../src/config/problem.ts';
import { limitsMetrics } from '../../src/external/limits-source.ts';
import { keepToPlan, storeProblem } from '../../src/runtime/configured-limiter.ts';
import { buildConfigRuntime, closeConfigRuntime } from '../../src/runtime/config-runtime.ts';
import { startService } from '../../src/service/service-server.ts';
import { MovedMetrics } from '../../src/telemetry/traffic-tally.ts';

const SILENT = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

export interface HttpReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  readonly json: unknown;
}

export interface AskOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Buffer;
  readonly agent?: Agent;
}

export interface TestService {
  readonly port: number;
  readonly moved: MovedMetrics;
  readonly runtime: Awaited<ReturnType<typeof buildConfigRuntime>>;
  ask(path: string, options?: AskOptions): Promise<HttpReply>;
  post(path: string, body: unknown, headers?: AskOptions['headers']): Promise<HttpReply>;
  close(withinMs?: number): Promise<void>;
}

/** Ends with the test. `yaml`: a configuration; its section `service` may be left out. */
export async function startTestService(yaml: string): Promise<TestService> {
  const text = /^service:/m.test(yaml) ? yaml : `${yaml}\nservice: {}\n`;
  const loaded = loadConfig({ file: { path: 'a.yaml', text } });
  if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
  const moved = new MovedMetrics();
  const runtime = await buildConfigRuntime(loaded, {
    log: SILENT,
    version: '1.2.3',
    limitsObserver: limitsMetrics(moved),
    onDecision: () => undefined,
    count: () => undefined,
  });
  keepToPlan(runtime.limiter);
  const server = await startService({
    snapshot: () => runtime.service,
    address: '127.0.0.1:0',
    openedUp: Promise.resolve(),
    secureContext: () => runtime.serviceTls?.options,
    storeProblem: async () => storeProblem(runtime.limiter),
    moved,
    log: SILENT,
    version: '1.2.3',
  });
  const { port } = server.address;
  let closed: Promise<void> | undefined;
  const close = async (withinMs = 0): Promise<void> => {
    closed ??= server.close({ withinMs });
    await closed;
  };
  onTestFinished(async () => {
    await close();
    await closeConfigRuntime(runtime);
  });
  const ask = async (path: string, options: AskOptions = {}): Promise<HttpReply> =>
    askHttp(port, path, options);
  return {
    port,
    moved,
    runtime,
    ask,
    post: async (path, body, headers = {}) =>
      ask(path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      }),
    close,
  };
}

async function askHttp(
  port: number,
  path: string,
  { method = 'GET', headers = {}, body, agent }: AskOptions,
): Promise<HttpReply> {
  return new Promise((resolve, reject) => {
    const outgoing = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, typeof value === 'string' ? value : [...value]]),
    );
    const call = request({ host: '127.0.0.1', port, path, method, headers: outgoing, agent }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          json: /json/.test(response.headers['content-type'] ?? '') ? JSON.parse(text) : undefined,
        });
      });
    });
    call.on('error', reject);
    call.end(body);
  });
}

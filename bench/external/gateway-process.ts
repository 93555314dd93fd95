import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { parseOwnMs } from '../frame/quiet-slices.ts';

const PACKAGE = createRequire(import.meta.url).resolve('spillgate-gateway/package.json');
const PROGRAM = join(dirname(PACKAGE), 'dist', 'main.js');
const START_TIMEOUT_MS = 20_000;

/** A gateway in a process of its own, with one worker, no access log and no admin server. */
export class GatewayProcess {
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  static async start(rateLimit: object, backendUrl: string, server: object = {}): Promise<GatewayProcess> {
    return GatewayProcess.#launch('run', {
      server: { address: '127.0.0.1:0', ...server },
      backend: { url: backendUrl },
      rate_limit: rateLimit,
    });
  }

  /** The decision service without the proxy; `port` is its port. */
  static async serve(config: object): Promise<GatewayProcess> {
    return GatewayProcess.#launch('serve', config);
  }

  static async #launch(command: 'run' | 'serve', config: object): Promise<GatewayProcess> {
    const file = join(mkdtempSync(join(tmpdir(), 'spillgate-bench-')), 'spillgate.yaml');
    const quiet = { admin: { enabled: false }, logging: { access_log_enabled: false, decision_log: 'off' } };
    writeFileSync(file, JSON.stringify({ ...quiet, ...config }));
    const child = spawn(process.execPath, [PROGRAM, command, '--config', file]);
    return new GatewayProcess(child, await portOf(child));
  }

  /** Processor time that it has used so far. */
  cpuUs(): number {
    return parseOwnMs(readFileSync(`/proc/${this.#child.pid ?? 0}/stat`, 'utf8')) * 1000;
  }

  stop(): void {
    this.#child.kill('SIGKILL');
  }
}

async function portOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    let output = '';
    const fail = (): void => reject(new Error(`the gateway did not start: ${output}`));
    const timer = setTimeout(fail, START_TIMEOUT_MS);
    child.once('exit', fail);
    child.stdout?.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      const port = /"port":(\d+)/.exec(output)?.[1];
      if (port === undefined) return;
      clearTimeout(timer);
      child.off('exit', fail);
      resolve(Number(port));
    });
    child.stderr?.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
  });
}

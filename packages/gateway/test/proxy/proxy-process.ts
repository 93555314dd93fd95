import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

/** The proxy as it is built, alone in a process, with a gate that admits everybody. */
const PROGRAM = `
import { configSchema } from '#gateway/config/config.js';
import { startProxy } from '#gateway/proxy/start-proxy.js';
import { createUpstreams } from '#gateway/proxy/upstreams/configured-upstreams.js';

const detail = { rule: undefined, keys: [], decision: undefined, shadow: false, reason: 'unlimited' };
const admission = { admitted: true, headers: [], detail };
const silent = () => undefined;
const log = { debug: silent, info: silent, warn: silent, error: silent };
const backend = { url: process.argv[1], max_conns: 64, max_request_body_size: 0 };
const config = configSchema.parse({ server: { address: '127.0.0.1:0' }, backend });
const snapshot = {
  config,
  ruleEngine: { decide: () => admission },
  upstreams: createUpstreams(config.backend, { log }),
};
const proxy = await startProxy({
  snapshot: () => snapshot,
  log,
  traffic: { started: silent, count: silent, finished: silent, connectionOpened: silent, connectionClosed: silent, tunnelOpened: silent, tunnelClosed: silent },
});
let peak = 0;
setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 20);
process.on('message', (question) => {
  if (question === 'reset') peak = 0;
  const { user, system } = process.cpuUsage();
  process.send({ rss: process.memoryUsage.rss(), peak, cpuUs: user + system });
});
process.on('disconnect', () => process.exit());
process.send({ port: proxy.address().port });
`;

interface Usage {
  readonly rss: number;
  /** The most since the last reset. */
  readonly peak: number;
  readonly cpuUs: number;
}

export class ProxyProcess {
  readonly port: number;
  private readonly child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.child = child;
    this.port = port;
  }

  static async start(origin: string): Promise<ProxyProcess> {
    const child = spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM, origin], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      cwd: fileURLToPath(new URL('../../../..', import.meta.url)),
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const [{ port }] = (await once(child, 'message')) as [{ port: number }];
    return new ProxyProcess(child, port);
  }

  async usage(question: 'look' | 'reset'): Promise<Usage> {
    this.child.send(question);
    const [usage] = (await once(this.child, 'message')) as [Usage];
    return usage;
  }
}

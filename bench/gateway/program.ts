import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const START_TIMEOUT_MS = 15_000;
const STOP_TIMEOUT_MS = 5000;
const POLL_MS = 20;

/** The two cores: one for the proxy under test, the other for everyone else. */
export const PROXY_CORE = 0;
export const OTHER_CORE = 1;

/** A server in a process of its own, kept on some cores. It ends with the suite. */
export class Program {
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  static async start(port: number, command: readonly string[], cores: number | string): Promise<Program> {
    const child = spawn('taskset', ['-c', String(cores), ...command], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let complaints = '';
    child.stderr.on('data', (text: Buffer) => {
      complaints = `${complaints}${text.toString()}`.slice(-2000);
    });
    const deadline = Date.now() + START_TIMEOUT_MS;
    while (!(await accepts(port))) {
      if (child.exitCode !== null || Date.now() > deadline) {
        child.kill();
        throw new Error(`${command.slice(0, 3).join(' ')} does not serve port ${port}: ${complaints}`);
      }
      await sleep(POLL_MS);
    }
    return new Program(child, port);
  }

  /** Processor time of all of its threads so far. */
  cpuUs(): number {
    return processorUs(this.#child.pid ?? 0);
  }

  /** The same with all processes that it has started and that still run. */
  familyUs(): number {
    return familyOf(this.#child.pid ?? 0).reduce((sum, pid) => sum + processorUs(pid), 0);
  }

  residentBytes(): number {
    const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => {
      this.#child.once('exit', resolve);
    });
    this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(timer);
  }
}

/** Processor time of all threads of a process so far. */
export function processorUs(pid: number): number {
  const tasks = `/proc/${pid}/task`;
  const nanoseconds = readdirSync(tasks).map((task) => {
    const [onCpu = ''] = readFileSync(`${tasks}/${task}/schedstat`, 'utf8').split(' ');
    return Number(onCpu);
  });
  return nanoseconds.reduce((sum, each) => sum + each, 0) / 1000;
}

function familyOf(pid: number): readonly number[] {
  const tasks = `/proc/${pid}/task`;
  const children = readdirSync(tasks).flatMap((task) =>
    readFileSync(`${tasks}/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  );
  return [pid, ...children.flatMap(familyOf)];
}

/** Keeps this process, which makes the load, away from the proxy's core. */
export function moveTo(cores: number | string): void {
  const { status } = spawnSync('taskset', ['-a', '-c', '-p', String(cores), String(process.pid)]);
  if (status !== 0) throw new Error(`taskset cannot move the benchmark to core ${cores}.`);
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => {
    server.once('listening', resolve);
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it listens on TCP
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => {
    server.close(resolve);
  });
  return port;
}

export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const settle = (open: boolean): void => {
      socket.destroy();
      resolve(open);
    };
    socket.once('connect', () => settle(true));
    socket.once('error', () => settle(false));
  });
}

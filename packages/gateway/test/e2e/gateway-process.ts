// The program as an operator runs it: a process of its own, with a file and signals.
import { spawn, type ChildProcess } from 'node:child_process';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { watchdog } from '../../../../test/redis/watchdog.ts';

const PROGRAM = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly [name: string]: unknown;
}

/** A running gateway. Its configuration may use `:0`: the ports are read from its log. */
export class GatewayProcess {
  readonly lines: LogLine[] = [];
  readonly folder = mkdtempSync(join(tmpdir(), 'spillgate-e2e-'));
  readonly configFile = join(this.folder, 'spillgate.yaml');
  port = 0;
  adminPort = 0;
  servicePort = 0;
  stderr = '';
  private command: 'run' | 'serve' = 'run';
  private child: ChildProcess | undefined;
  private ended: Promise<number> = Promise.resolve(0);
  private rest = '';
  private readonly watchers = new Set<() => void>();

  /** `serve`: the decision service without the proxy. */
  static async start(yaml: string, command: 'run' | 'serve' = 'run'): Promise<GatewayProcess> {
    const gateway = new GatewayProcess();
    gateway.command = command;
    watchdog.hold(gateway.folder);
    gateway.write(yaml);
    try {
      await gateway.launch();
      return gateway;
    } catch (failure) {
      await gateway.remove();
      throw failure;
    }
  }

  /** Replaces the configuration as careful programs do: whole, by renaming. */
  write(yaml: string): void {
    writeFileSync(`${this.configFile}.new`, yaml);
    renameSync(`${this.configFile}.new`, this.configFile);
  }

  /** The same, tells the gateway, and waits for what becomes of it. */
  async reload(yaml: string): Promise<LogLine> {
    const from = this.lines.length;
    this.write(yaml);
    this.signal('SIGHUP');
    const line = await this.line((found) => 'outcome' in found && this.lines.indexOf(found) >= from);
    const moved = this.lines.slice(from).find(({ msg }) => msg === 'the gateway listens elsewhere');
    if (moved !== undefined) {
      this.port = Number(moved['port']);
      this.adminPort = Number(moved['adminPort']);
    }
    return line;
  }

  async launch(): Promise<void> {
    this.lines.length = 0;
    const { PATH = '' } = process.env;
    const child = spawn(process.execPath, [PROGRAM, this.command, '--config', this.configFile], {
      env: { PATH },
    });
    this.child = child;
    // A run of tests that is interrupted leaves no gateway behind.
    if (child.pid !== undefined) writeFileSync(join(this.folder, 'pid'), String(child.pid));
    this.ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        rmSync(join(this.folder, 'pid'), { force: true });
        resolve(signal === null ? (code ?? -1) : -1);
      });
    });
    child.stdout.setEncoding('utf8').on('data', (text: string) => this.read(text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    const line = await Promise.race([
      this.line(({ msg }) => msg === 'the gateway is ready' || msg === 'the decision service is ready'),
      this.ended.then((code) => {
        throw new Error(`the gateway ended with ${code}: ${this.stderr}`);
      }),
    ]);
    this.port = Number(line['port']);
    this.adminPort = Number(line['adminPort']);
    this.servicePort = Number(line['servicePort']);
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get adminUrl(): string {
    return `http://127.0.0.1:${this.adminPort}`;
  }

  signal(name: NodeJS.Signals): void {
    this.child?.kill(name);
  }

  /** The processes that it has started. */
  workerPids(): readonly number[] {
    const pid = this.child?.pid ?? 0;
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  }

  /** How many TCP ports of IPv4 it listens on. */
  listeningPorts(): number {
    const folder = `/proc/${this.child?.pid ?? 0}`;
    const sockets = new Set(readdirSync(`${folder}/fd`).map((fd) => linkAt(`${folder}/fd/${fd}`)));
    // The state of a socket is the fourth column, 0A if it listens; its inode is the tenth.
    return readFileSync(`${folder}/net/tcp`, 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter((columns) => columns[3] === '0A' && sockets.has(`socket:[${columns[9]}]`)).length;
  }

  /** Nobody reads what it writes from now on. */
  closeOutput(): void {
    this.child?.stdout?.destroy();
    this.child?.stderr?.destroy();
  }

  /** The exit code. */
  async exit(): Promise<number> {
    return this.ended;
  }

  async terminate(): Promise<number> {
    this.signal('SIGTERM');
    return this.exit();
  }

  /** After a test, whatever has become of it. */
  async remove(): Promise<void> {
    this.signal('SIGKILL');
    await this.exit();
    watchdog.drop(this.folder);
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** The first line from now on, or already there, that fits. */
  async line(fits: (line: LogLine) => boolean, withinMs = PATIENCE_MS): Promise<LogLine> {
    const deadline = performance.now() + withinMs;
    for (;;) {
      const found = this.lines.find(fits);
      if (found !== undefined) return found;
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) throw new Error(`no such line in ${JSON.stringify(this.lines.slice(-20))}`);
      await this.nextLine(leftMs);
    }
  }

  private async nextLine(withinMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.watchers.delete(done);
        resolve();
      };
      const timer = setTimeout(done, withinMs);
      this.watchers.add(done);
    });
  }

  private read(text: string): void {
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop() ?? '';
    for (const line of lines) this.lines.push(parseLine(line));
    for (const tell of this.watchers) tell();
  }
}

function parseLine(text: string): LogLine {
  const line: unknown = JSON.parse(text);
  if (typeof line !== 'object' || line === null || !('msg' in line)) throw new Error(`no log line: ${text}`);
  return { level: '', ...line, msg: String(line.msg) };
}

/** Nothing if it has gone since it was listed. */
function linkAt(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import { eventually } from './polling.ts';
import type { Reservation } from './reservation.ts';
import type { Argument, Reply } from './resp.ts';
import { type ConnectOptions, RespConnection } from './resp-connection.ts';
import { clockEnvironment, writeClock } from './server-clock.ts';

export interface LaunchOptions {
  readonly mode?: 'server' | 'sentinel';
  /** Lines of redis.conf, after those that every server here gets. */
  readonly config?: readonly string[];
  /** Of the default user. */
  readonly password?: string;
  /** Whole lines: `user app on >secret ~* +@read`. */
  readonly acl?: readonly string[];
  /** What a client needs to connect by TLS; without it the server speaks plain text. */
  readonly tls?: ConnectionOptions;
  /** Whether {@link RedisServer.setClock} can be called. */
  readonly ownClock?: boolean;
  /** More files in the server's folder, by name. */
  readonly files?: Readonly<Record<string, string>>;
}

/**
 * Who {@link RedisServer.command} acts as, whatever a test does to the default user. The password only keeps other
 * programs on the machine out.
 */
export const ADMIN = { username: 'harness', password: randomBytes(16).toString('hex') } as const;

/** Another server that speaks the same, such as Valkey: a path. */
const PROGRAM = process.env['SPILLGATE_REDIS_SERVER'] ?? 'redis-server';
const CONFIG_FILE = 'redis.conf';
const LOG_FILE = 'redis.log';
const SOCKET_FILE = 'redis.sock';
const PID_FILE = 'pid';
/** Left by the synchronization of a replica, and loaded at a start, whatever the settings for saving are. */
const SNAPSHOT_FILE = 'dump.rdb';

const SERVER_CONFIG: readonly string[] = [
  'save ""',
  'appendonly no',
  'enable-debug-command local',
  // Without a disk a master holds back what follows the first synchronization until the replica reports, up to a
  // second.
  'repl-diskless-sync no',
];

/** A real `redis-server` process on 127.0.0.1 that keeps nothing on disk. */
export class RedisServer {
  readonly host = '127.0.0.1';
  readonly port: number;
  readonly url: string;
  /** Where the server runs; removed by {@link stop}. */
  readonly folder: string;
  readonly #reservation: Reservation;
  readonly #options: LaunchOptions;
  #process: ChildProcess | undefined;
  #frozen = false;
  #stopped = false;

  private constructor(reservation: Reservation, options: LaunchOptions) {
    const { password, tls } = options;
    const credentials = password === undefined ? '' : `:${encodeURIComponent(password)}@`;
    this.port = reservation.port;
    this.folder = reservation.folder;
    this.url = `${tls === undefined ? 'redis' : 'rediss'}://${credentials}${this.host}:${this.port}`;
    this.#reservation = reservation;
    this.#options = options;
  }

  /** Resolves when the server answers. If it does not start, rejects with its log and releases the reservation. */
  static async launch(reservation: Reservation, options: LaunchOptions): Promise<RedisServer> {
    const server = new RedisServer(reservation, options);
    const files = { [CONFIG_FILE]: configFile(reservation, options), ...options.files };
    for (const [name, content] of Object.entries(files)) {
      writeFileSync(join(server.folder, name), content, { mode: 0o600 });
    }
    if (options.ownClock === true) writeClock(server.folder, 0);
    try {
      await server.#start();
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  /** Undefined while the server is down. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** False while the server is down or frozen. */
  get isResponsive(): boolean {
    return this.#process !== undefined && !this.#frozen;
  }

  /**
   * Runs one command with all rights, on a connection of its own. It goes through a socket in the server's folder: no
   * access list, TLS setting or other server on the port can be in the way.
   */
  async command(...args: readonly Argument[]): Promise<Reply> {
    const connection = await RespConnection.open({ to: { path: join(this.folder, SOCKET_FILE) }, ...ADMIN });
    try {
      return await connection.command(...args);
    } finally {
      connection.close();
    }
  }

  /** Connects like any client, by TCP or TLS and as the default user unless told otherwise. The caller closes it. */
  async connect(options: Omit<ConnectOptions, 'to'> = {}): Promise<RespConnection> {
    const { password, tls } = this.#options;
    return RespConnection.open({
      to: { port: this.port },
      ...(password === undefined ? {} : { password }),
      ...(tls === undefined ? {} : { tls }),
      ...options,
    });
  }

  /** Freezes the process: connections stay open and new ones are accepted by the kernel, but nothing answers. */
  async pause(): Promise<void> {
    const pid = this.#signal('SIGSTOP');
    this.#frozen = true;
    await eventually(`${this.url} is frozen`, () => isFrozen(pid));
  }

  resume(): void {
    this.#signal('SIGCONT');
    this.#frozen = false;
  }

  /** Sets the server's clock to the machine's plus `byMs`, until it is set again. */
  setClock(byMs: number): void {
    if (this.#options.ownClock !== true)
      throw new Error(`${this.url} was started without a clock of its own`);
    writeClock(this.folder, byMs);
  }

  /** Ends the process without warning, like a crash. Port and folder stay reserved for {@link restart}. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (child === undefined) return;
    child.ref();
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
  }

  /** Starts the process again on the same port and with the same configuration, but without data. */
  async restart(): Promise<void> {
    if (this.#stopped) throw new Error(`${this.url} was stopped for good`);
    // Who restarts it at the same time may have started it meanwhile: there is never more than one process.
    do await this.kill();
    while (this.#process !== undefined);
    await this.#start();
  }

  /** Ends the process if it runs, and gives up its port and folder. May be called again. */
  async stop(): Promise<void> {
    // Not SIGTERM: a frozen process does not see it, and a master would wait for its replicas.
    await this.kill();
    if (this.#stopped) return;
    this.#stopped = true;
    this.#reservation.release();
  }

  async #start(): Promise<void> {
    rmSync(join(this.folder, SNAPSHOT_FILE), { force: true });
    const child = this.#spawn();
    let failure: string | undefined;
    child.once('error', (error) => {
      failure = `redis-server cannot run (${error.message}); scripts/prepare-system.sh installs it`;
    });
    child.once('exit', (code, signal) => {
      failure = `redis-server on port ${this.port} ended by itself (${signal ?? code}):\n${this.#log()}`;
      if (this.#process !== child) return;
      rmSync(join(this.folder, PID_FILE), { force: true });
      this.#process = undefined;
      this.#frozen = false;
    });
    await eventually(`${this.url} answers`, async () => {
      if (failure !== undefined) return true;
      return (await this.command('PING')) === 'PONG';
    });
    if (failure !== undefined) throw new Error(failure);
  }

  #spawn(): ChildProcess {
    const log = openSync(join(this.folder, LOG_FILE), 'a', 0o600);
    try {
      const mode = this.#options.mode === 'sentinel' ? ['--sentinel'] : [];
      const child = spawn(PROGRAM, [CONFIG_FILE, ...mode], {
        cwd: this.folder,
        stdio: ['ignore', log, log],
        ...(this.#options.ownClock === true ? { env: clockEnvironment(this.folder) } : {}),
      });
      if (child.pid !== undefined) {
        writeFileSync(join(this.folder, PID_FILE), String(child.pid));
        this.#process = child;
      }
      // A server that a test forgot must not keep the test process alive; the watchdog ends it.
      child.unref();
      return child;
    } finally {
      closeSync(log);
    }
  }

  #log(): string {
    try {
      return readFileSync(join(this.folder, LOG_FILE), 'utf8');
    } catch (error) {
      // The watchdog may be removing the folder at this very moment.
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return '';
      throw error;
    }
  }

  #signal(signal: NodeJS.Signals): number {
    const child = this.#process;
    if (child?.pid === undefined) throw new Error(`${this.url} is down`);
    child.kill(signal);
    return child.pid;
  }
}

function configFile(
  { port }: Reservation,
  { mode = 'server', config = [], password, acl = [], tls }: LaunchOptions,
): string {
  const lines = [
    'bind 127.0.0.1',
    ...(tls === undefined ? [`port ${port}`] : ['port 0', `tls-port ${port}`]),
    `unixsocket ${SOCKET_FILE}`,
    `user ${ADMIN.username} on >${ADMIN.password} ~* &* +@all`,
    ...(mode === 'server' ? SERVER_CONFIG : []),
    ...(password === undefined ? [] : [`requirepass ${JSON.stringify(password)}`]),
    ...acl,
    ...config,
  ];
  return `${lines.join('\n')}\n`;
}

function isFrozen(pid: number): boolean {
  // Systems without /proc offer no cheap way to see it; there the signal has to be trusted.
  if (!existsSync('/proc/self/stat')) return true;
  return /\) [Tt] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
}

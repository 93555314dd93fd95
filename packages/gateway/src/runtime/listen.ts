import type { AddressInfo, Server } from 'node:net';
import { joinHostPort, splitHostPort } from 'spillgate/internal';
import type { Config } from '../config/config.ts';
import { SettingError } from '../config/problem.ts';
import type { PreparedChange } from '../proxy/start-proxy.ts';

/**
 * Listens on `:8080`, `127.0.0.1:8080` or `[::1]:8080`; without a host on all addresses. Rejects with the system's
 * error.
 */
export async function listenOn(server: Server, address: string): Promise<AddressInfo> {
  const { host, port } = splitHostPort(address);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(host === '' ? { port } : { port, host }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const bound = server.address();
  if (bound === null || typeof bound === 'string') throw new Error(`${address} is not a TCP address`);
  return bound;
}

type ListenSetting = 'server.address' | 'admin.address' | 'service.address';

export interface ListenProblem {
  readonly message: string;
  readonly suggestion: string;
}

/** What to say when one of the addresses cannot be listened on at the start; undefined for other failures. */
export function listenProblem(failure: unknown, { server, admin, service }: Config): string | undefined {
  const port = failure instanceof Error && 'port' in failure ? Number(failure.port) : undefined;
  const others = [
    { setting: 'admin.address', address: admin.address },
    ...(service === undefined ? [] : [{ setting: 'service.address', address: service.address } as const]),
  ] as const;
  const other =
    port === portOf(server.address) ? undefined : others.find(({ address }) => portOf(address) === port);
  const { setting, address } = other ?? { setting: 'server.address', address: server.address };
  const problem = problemAt(setting, address, failure);
  return problem === undefined ? undefined : `${problem.message}. ${problem.suggestion}`;
}

export interface ListenAttempt {
  readonly setting: ListenSetting;
  readonly address: string;
  /** Ports that the gateway itself listens on. */
  readonly ownPorts: readonly number[];
}

/** Does what listens, and turns the system's error into one that names the setting. */
export async function listening<T>(
  { setting, address, ownPorts }: ListenAttempt,
  listen: () => Promise<T>,
): Promise<T> {
  try {
    return await listen();
  } catch (failure) {
    const problem = problemAt(setting, address, failure);
    if (problem === undefined) throw failure;
    const path = setting.split('.');
    if (!isInUse(failure) || !ownPorts.includes(portOf(address))) {
      throw new SettingError(path, problem.message, problem.suggestion);
    }
    throw new SettingError(
      path,
      `${setting}: the gateway itself listens on port ${portOf(address)}, and cannot listen on ${address} before it has closed that`,
      'Choose another port, or restart the gateway.',
    );
  }
}

function problemAt(setting: ListenSetting, address: string, failure: unknown): ListenProblem | undefined {
  if (!(failure instanceof Error) || !('code' in failure) || !('syscall' in failure)) return undefined;
  if (failure.syscall !== 'listen' && failure.syscall !== 'bind' && failure.syscall !== 'getaddrinfo') {
    return undefined;
  }
  const variable = `SPILLGATE_${setting.replace('.', '_').toUpperCase()}`;
  const other = `${setting} (or ${variable})`;
  switch (failure.code) {
    case 'EADDRINUSE':
      return {
        message: `${setting}: ${address} is in use by another program`,
        suggestion: `Stop that one, or choose another address with ${setting}, or with the variable: ${variable}=${nextPort(address)}`,
      };
    case 'EACCES':
      return {
        message: `${setting}: this user may not listen on ${address}`,
        suggestion: `Ports below 1024 need a privilege (CAP_NET_BIND_SERVICE); choose another with ${other}.`,
      };
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return {
        message: `${setting}: this machine does not have the address ${address}`,
        suggestion: `Choose one of its own with ${other}.`,
      };
    default:
      return {
        message: `${setting}: cannot listen on ${address} (${String(failure.code)})`,
        suggestion: `Choose another address with ${other}.`,
      };
  }
}

function isInUse(failure: unknown): boolean {
  return failure instanceof Error && 'code' in failure && failure.code === 'EADDRINUSE';
}

/** An example to copy. */
function nextPort(address: string): string {
  const { host, port } = splitHostPort(address);
  return joinHostPort({ host, port: port < 65_535 ? port + 1 : port - 1 });
}

function portOf(address: string): number {
  return splitHostPort(address).port;
}

/** A server that listens at one address. */
interface PortServer {
  readonly address: AddressInfo;
  /** The configuration has changed. */
  follow(): void;
  close(options?: { readonly withinMs: number }): Promise<void>;
}

/** Listens at an address, and answers from `openedUp` on. */
type OpenPort<Opened> = (address: string, openedUp: Promise<void>) => Promise<Opened>;

/** Where a server has to be. */
export interface PortPlan {
  /** Undefined: nowhere. */
  readonly address: string | undefined;
  /** How long the server at the old place may take to finish. */
  readonly closeWithinMs: number;
}

/** A server that may come, move and go while the gateway runs. */
export class MovingPort<Opened extends PortServer> {
  private readonly open: OpenPort<Opened>;
  private server: Opened | undefined;
  private configured: string | undefined;

  /** `open` rejects with what to say about an address that cannot be listened on. */
  constructor(open: OpenPort<Opened>) {
    this.open = open;
  }

  get address(): AddressInfo | undefined {
    return this.server?.address;
  }

  /**
   * Listens at once, because that may fail. Requests there wait until the change is in use: what the old configuration
   * allows on loopback must not hold anywhere else for a moment.
   */
  async prepare({ address, closeWithinMs }: PortPlan): Promise<PreparedChange> {
    const { server: old } = this;
    if (address === this.configured) {
      return { ...NO_CHANGE, commit: () => old?.follow() };
    }
    let openUp: () => void = () => undefined;
    const openedUp = new Promise<void>((resolve) => {
      openUp = resolve;
    });
    const server = address === undefined ? undefined : await this.open(address, openedUp);
    return {
      commit: () => {
        openUp();
        this.server = server;
        this.configured = address;
        server?.follow();
        // The request that asked for this change still gets its answer: responses have their own time limit.
        void old?.close({ withinMs: closeWithinMs });
      },
      abort: () => void server?.close({ withinMs: 0 }),
    };
  }

  /** What the server reads from the configuration is not the same any more. */
  follow(): void {
    this.server?.follow();
  }

  async close(withinMs?: number): Promise<void> {
    await this.server?.close(withinMs === undefined ? undefined : { withinMs });
  }
}

export type { PreparedChange } from '../proxy/start-proxy.ts';

export const NO_CHANGE: PreparedChange = { commit: () => undefined, abort: () => undefined };

/** Makes all of them ready, or none: rejects with the first failure. */
export async function prepareAll(
  preparations: readonly (() => Promise<PreparedChange>)[],
): Promise<PreparedChange> {
  const changes: PreparedChange[] = [];
  try {
    for (const prepare of preparations) changes.push(await prepare());
  } catch (failure) {
    for (const change of changes) change.abort();
    throw failure;
  }
  return {
    commit: () => {
      for (const change of changes) change.commit();
    },
    abort: () => {
      for (const change of changes) change.abort();
    },
  };
}

/** Work that must not overlap: each begins when the one before is done. */
export class SerialQueue {
  private last: Promise<unknown> = Promise.resolve();

  async run<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.last.then(work);
    this.last = turn.catch(() => undefined);
    return turn;
  }

  /** The same work for all who ask while it waits for its turn: it has not looked at anything yet. */
  coalesced<T>(work: () => Promise<T>): () => Promise<T> {
    let waiting: Promise<T> | undefined;
    return async () => {
      waiting ??= this.run(async () => {
        waiting = undefined;
        return work();
      });
      return waiting;
    };
  }
}

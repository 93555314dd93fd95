import type { AddressInfo, Server } from 'node:net';
import { joinHostPort, splitHostPort } from 'spillgate/internal';
import type { Config } from '../config/config.ts';
import { SettingError } from '../config/problem.ts';

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

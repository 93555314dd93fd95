import { createServer, type AddressInfo } from 'node:net';
import { splitHostPort } from 'spillgate/internal';
import { bad, good, reasonOf, warning, type DoctorFinding, type Examined } from './finding.ts';

/** Ports, and how many files a process may have open. */
export async function examineMachine(
  { config, readFile }: Examined,
  gatewayRuns: boolean,
): Promise<readonly DoctorFinding[]> {
  const ports = [
    { setting: 'server.address', address: config.server.address },
    ...(config.admin.enabled ? [{ setting: 'admin.address', address: config.admin.address }] : []),
  ];
  const found = await Promise.all(ports.map((port) => examinePort(port, gatewayRuns)));
  return [...found, ...examineOpenFiles(config, readFile)];
}

interface ConfiguredPort {
  readonly setting: string;
  readonly address: string;
}

async function examinePort(
  { setting, address }: ConfiguredPort,
  gatewayRuns: boolean,
): Promise<DoctorFinding> {
  const subject = `port ${setting} ${address}`;
  const { host, port } = splitHostPort(address);
  try {
    await listenBriefly(host, port);
    return good(subject, 'can be opened');
  } catch (failure) {
    const reason = reasonOf(failure);
    if (reason.includes('EADDRINUSE')) {
      return gatewayRuns
        ? good(subject, 'is held by the running gateway')
        : bad(
            subject,
            'is taken by another program',
            `Find it with: ss -ltnp 'sport = :${port}', or change ${setting}.`,
          );
    }
    if (reason.includes('EACCES')) {
      return bad(
        subject,
        'may not be opened by this user',
        `Give the program CAP_NET_BIND_SERVICE, or use a port from 1024 in ${setting}.`,
      );
    }
    if (reason.includes('EADDRNOTAVAIL')) {
      return bad(subject, 'is no address of this machine', `Use ":${port}" for all of its addresses.`);
    }
    return bad(subject, `cannot be opened (${reason})`, `Change ${setting}.`);
  }
}

async function listenBriefly(host: string, port: number): Promise<void> {
  const server = createServer();
  await new Promise<AddressInfo | string | null>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, ...(host === '' ? {} : { host }) }, () => resolve(server.address()));
  });
  await new Promise((resolve) => server.close(resolve));
}

/** Of the process itself: modules, log, Redis, admin server. */
const OWN_FILES = 200;
const LIMITS_FILE = '/proc/self/limits';

function examineOpenFiles(
  { server, backend, backends }: Examined['config'],
  readFile: Examined['readFile'],
): readonly DoctorFinding[] {
  const limit = openFilesAllowed(readFile);
  if (limit === undefined) return [];
  const connections = [backend, ...Object.values(backends)].reduce(
    (sum, { url, upstreams, max_conns }) =>
      sum + Math.max(1, upstreams.length + (url === undefined ? 0 : 1)) * max_conns,
    0,
  );
  const needed = server.max_connections + connections + OWN_FILES;
  const subject = 'open files';
  if (limit >= needed) return [good(subject, `${limit} are allowed, at most ${needed} are needed`)];
  return [
    warning(
      subject,
      `${limit} are allowed, but server.max_connections and backend.max_conns may need ${needed}`,
      `Raise it (ulimit -n ${needed}, or LimitNOFILE= in the unit), or lower server.max_connections to ${Math.max(1, limit - (needed - server.max_connections))}.`,
    ),
  ];
}

/** Undefined where the system does not say. */
function openFilesAllowed(readFile: Examined['readFile']): number | undefined {
  try {
    const soft = /^Max open files\s+(\S+)/m.exec(readFile(LIMITS_FILE))?.[1];
    if (soft === undefined) return undefined;
    return soft === 'unlimited' ? Infinity : Number(soft);
  } catch {
    return undefined;
  }
}

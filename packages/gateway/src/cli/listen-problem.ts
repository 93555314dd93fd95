import type { Config } from '../config/config.ts';

/** What to say when an address cannot be listened on; undefined for other failures. */
export function listenProblem(failure: unknown, { server, admin }: Config): string | undefined {
  if (!(failure instanceof Error) || !('code' in failure) || !('syscall' in failure)) return undefined;
  if (failure.syscall !== 'listen' && failure.syscall !== 'bind' && failure.syscall !== 'getaddrinfo') {
    return undefined;
  }
  const port = 'port' in failure ? Number(failure.port) : undefined;
  const isAdmin = port !== undefined && port === portOf(admin.address) && port !== portOf(server.address);
  const [setting, address] = isAdmin ? ['admin.address', admin.address] : ['server.address', server.address];
  const variable = `SPILLGATE_${setting.replace('.', '_').toUpperCase()}`;
  const other = `${setting} (or ${variable})`;
  switch (failure.code) {
    case 'EADDRINUSE':
      return `${setting}: ${address} is in use by another program. Stop that one, or choose another address with ${setting}, or with the variable: ${variable}=${nextPort(address)}`;
    case 'EACCES':
      return `${setting}: this user may not listen on ${address}. Ports below 1024 need a privilege (CAP_NET_BIND_SERVICE); choose another with ${other}.`;
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `${setting}: this machine does not have the address ${address}. Choose one of its own with ${other}.`;
    default:
      return `${setting}: cannot listen on ${address} (${String(failure.code)}). Choose another address with ${other}.`;
  }
}

/** An example to copy. */
function nextPort(address: string): string {
  const port = portOf(address);
  return `${address.slice(0, address.lastIndexOf(':'))}:${port < 65_535 ? port + 1 : port - 1}`;
}

function portOf(address: string): number {
  return Number(address.slice(address.lastIndexOf(':') + 1));
}

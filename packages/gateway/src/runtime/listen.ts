import type { Server } from 'node:net';

/** Where a server listens in the end. */
export interface Bound {
  readonly host: string;
  readonly port: number;
}

/** Listens on `:8080`, `127.0.0.1:8080` or `[::1]:8080`; without a host on all addresses. Rejects with the system's error. */
export async function listenOn(server: Server, address: string): Promise<Bound> {
  const at = address.lastIndexOf(':');
  const host = address.slice(0, at).replaceAll(/^\[|\]$/g, '');
  const port = Number(address.slice(at + 1));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(host === '' ? { port } : { port, host }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const bound = server.address();
  return { host, port: typeof bound === 'object' && bound !== null ? bound.port : port };
}

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';

/** A document's client asks api.example.com; loaded before it, this sends its requests to a server on this machine. */
const redirect = (port: number): string => `
  const { fetch } = globalThis;
  globalThis.fetch = (input, init) =>
    fetch(String(input instanceof Request ? input.url : input).replace('https://api.example.com', 'http://127.0.0.1:${port}'), init);
`;

/** Runs a client program in front of a server that refuses once; answers the statuses that the server sent. */
export async function statusesOfClient(program: string): Promise<readonly number[]> {
  const statuses: number[] = [];
  const server = createServer((_request, response) => {
    const status = statuses.length === 0 ? 429 : 200;
    statuses.push(status);
    response.writeHead(status, { 'Retry-After': '0' }).end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it listens on TCP
    const { port } = server.address() as AddressInfo;
    const preload = `data:text/javascript,${encodeURIComponent(redirect(port))}`;
    await promisify(execFile)(process.execPath, ['--import', preload, program]);
    return statuses;
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';

/** A document's server listens on port 3000; loaded before it, this gives it a free port instead and prints which. */
const FREE_PORT = `
  import { Server } from 'node:net';
  const { listen } = Server.prototype;
  Server.prototype.listen = function (...given) {
    this.once('listening', () => console.log('listening on port ' + this.address().port));
    return listen.call(this, 0, '127.0.0.1', ...given.filter((value) => typeof value === 'function'));
  };
`;

/** Starts a server program and sends it requests, one after the other, until it refuses one; then stops it. */
export async function statusesUntilRefusal(program: string, atMost: number): Promise<readonly number[]> {
  const preload = `data:text/javascript,${encodeURIComponent(FREE_PORT)}`;
  const server = spawn(process.execPath, ['--import', preload, program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const port = await portIn(server.stdout);
    const statuses: number[] = [];
    while (statuses.length < atMost && statuses.at(-1) !== 429) {
      const response = await fetch(`http://127.0.0.1:${port}/`);
      await response.text();
      statuses.push(response.status);
    }
    return statuses;
  } finally {
    server.kill();
    await once(server, 'close');
  }
}

async function portIn(output: Readable): Promise<string> {
  let printed = '';
  for await (const chunk of output) {
    printed += String(chunk);
    const port = /^listening on port (\d+)$/m.exec(printed)?.[1];
    if (port !== undefined) return port;
  }
  throw new Error(`the server ended before it listened, and printed: ${printed}`);
}

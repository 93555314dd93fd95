import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';

/** A document's server listens on port 3000; loaded before it, this gives it a free port instead and prints which. */
export const FREE_PORT = `
  import { Server } from 'node:net';
  const { listen } = Server.prototype;
  Server.prototype.listen = function (...given) {
    this.once('listening', () => console.log('listening on port ' + this.address().port));
    return listen.call(this, 0, '127.0.0.1', ...given.filter((value) => typeof value === 'function'));
  };
`;

/** Starts a server program and sends it requests, one after the other, until it refuses one; then stops it. */
export async function statusesUntilRefusal(program: string, atMost: number): Promise<readonly number[]> {
  return withServer(program, {}, async (url) => {
    const statuses: number[] = [];
    while (statuses.length < atMost && statuses.at(-1) !== 429) statuses.push(await statusOf(url));
    return statuses;
  });
}

/** Starts a server program with these environment variables, sends it that many requests, and stops it. */
export async function firstStatuses(
  program: string,
  count: number,
  environment: Readonly<Record<string, string>>,
): Promise<readonly number[]> {
  return withServer(program, environment, async (url) => {
    const statuses: number[] = [];
    while (statuses.length < count) statuses.push(await statusOf(url));
    return statuses;
  });
}

/** Starts a server program with these environment variables, and stops it after use. */
export async function withServer<Result>(
  program: string,
  environment: Readonly<Record<string, string>>,
  use: (url: string) => Promise<Result>,
): Promise<Result> {
  const preload = `data:text/javascript,${encodeURIComponent(FREE_PORT)}`;
  const server = spawn(process.execPath, ['--import', preload, program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...environment },
  });
  try {
    return await use(`http://127.0.0.1:${await portIn(server.stdout)}/`);
  } finally {
    server.kill();
    await once(server, 'close');
  }
}

async function statusOf(url: string): Promise<number> {
  const response = await fetch(url);
  await response.text();
  return response.status;
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

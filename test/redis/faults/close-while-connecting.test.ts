// A limiter that is closed holds nothing, at whatever moment of connecting that happens: the process ends by itself.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../servers.ts';

const REPOSITORY = new URL('../../../', import.meta.url);
const PATIENCE_MS = 20_000;
/** Before the package is loaded, while the socket opens, in the handshake, and after it. */
const DELAYS_MS = [0, 2, 10, 30, 100];

let server: RedisServer;

beforeAll(async () => {
  server = await startRedis();
});

afterAll(async () => {
  await server.stop();
});

const PROGRAM = `
import { createLimiter } from 'spillgate';
import { redisStore } from 'spillgate/redis';
const { url, clientPackage, delayMs } = JSON.parse(process.argv[1]);
const limiter = createLimiter({ store: redisStore({ url, clientPackage }) });
limiter.on('storeError', () => undefined);
await new Promise((resolve) => setTimeout(resolve, delayMs));
await limiter.close();
console.log('closed');
`;

test.each(['ioredis', 'iovalkey', 'redis'])(
  '%s: a process that closes its limiter while it connects ends',
  { timeout: 2 * PATIENCE_MS },
  async (clientPackage) => {
    for (const delayMs of DELAYS_MS) {
      const options = JSON.stringify({ url: server.url, clientPackage, delayMs });
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['--input-type=module', '--eval', PROGRAM, options],
        { cwd: REPOSITORY, timeout: PATIENCE_MS },
      );
      expect(stdout).toBe('closed\n');
    }
  },
);

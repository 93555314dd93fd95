import type { Awaitable } from '../frame/awaitable.ts';
import type { Candidate, Subject } from './candidate.ts';
import { openIoredis, openNodeRedis } from './connections.ts';

type Send = (command: string, ...args: string[]) => Promise<unknown>;

/** The least that a script call can cost. */
const TRIVIAL_SCRIPT = 'return 1';

/** The least that a limiter can do in one: know the time, read a state, and write it back with an expiry. */
const READ_AND_WRITE_SCRIPT = `
redis.call('TIME')
local state = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], state or ARGV[1], 'PX', '86400000')
return 1
`;

const STATE = 'x'.repeat(32);

export const bareIoredis: Candidate = {
  id: 'bare-ioredis',
  name: 'bare EVALSHA, ioredis',
  role: 'reference',
  open: async (port) => openOnIoredis(port, TRIVIAL_SCRIPT),
};

export const bareNodeRedis: Candidate = {
  id: 'bare-node-redis',
  name: 'bare EVALSHA, node-redis',
  role: 'reference',
  async open(port) {
    const client = await openNodeRedis(port);
    return openScript(
      (command, ...args) => client.sendCommand([command, ...args]),
      TRIVIAL_SCRIPT,
      () => client.destroy(),
    );
  },
};

export const readAndWriteIoredis: Candidate = {
  id: 'read-and-write-ioredis',
  name: 'EVALSHA of TIME, GET, SET, ioredis',
  role: 'reference',
  open: async (port) => openOnIoredis(port, READ_AND_WRITE_SCRIPT),
};

async function openOnIoredis(port: number, script: string): Promise<Subject> {
  const client = openIoredis(port);
  return openScript(
    (command, ...args) => client.call(command, ...args),
    script,
    () => client.disconnect(),
  );
}

async function openScript(send: Send, script: string, disconnect: () => void): Promise<Subject> {
  const sha1 = await send('SCRIPT', 'LOAD', script);
  if (typeof sha1 !== 'string') throw new TypeError('SCRIPT LOAD answered something else than a name.');
  const answering = (allowed: boolean): Awaitable => ({
    call: (key) => send('EVALSHA', sha1, '1', `reference:${key}`, STATE),
    // It decides nothing; this is the answer that the check on answers expects.
    allowed: () => allowed,
    denied: () => false,
  });
  return { ample: answering(true), tight: answering(false), close: async () => disconnect() };
}

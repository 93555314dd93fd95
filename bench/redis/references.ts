import type { Awaitable } from '../frame/awaitable.ts';
import type { Candidate, Subject } from './candidate.ts';
import { openIoredis, openNodeRedis } from './connections.ts';
import { recordCall } from './recorded-call.ts';

type Send = (command: string, ...args: string[]) => Promise<unknown>;

/** The least that a script call can cost. */
const TRIVIAL_SCRIPT = 'return 1';

/**
 * Our own script with our own arguments, one decision per call, sent by hand: what is left when the library is taken
 * away.
 */
export const bareIoredis: Candidate = {
  id: 'bare-ioredis',
  name: 'bare EVALSHA of our script, ioredis',
  role: 'reference',
  async open(port) {
    const client = openIoredis(port);
    const send: Send = (command, ...args) => client.call(command, ...args);
    return subject(await ownCall(port, send), () => client.disconnect());
  },
};

export const bareNodeRedis: Candidate = {
  id: 'bare-node-redis',
  name: 'bare EVALSHA of our script, node-redis',
  role: 'reference',
  async open(port) {
    const client = await openNodeRedis(port);
    const send: Send = (command, ...args) => client.sendCommand([command, ...args]);
    return subject(await ownCall(port, send), () => client.destroy());
  },
};

export const trivialIoredis: Candidate = {
  id: 'trivial-ioredis',
  name: 'bare EVALSHA of `return 1`, ioredis',
  role: 'reference',
  async open(port) {
    const client = openIoredis(port);
    const sha1 = await client.script('LOAD', TRIVIAL_SCRIPT);
    if (typeof sha1 !== 'string') throw new TypeError('SCRIPT LOAD answered something else than a name.');
    return subject(
      (key) => client.call('EVALSHA', sha1, '1', `reference:${key}`),
      () => client.disconnect(),
    );
  },
};

/** The call that the store makes for one decision, with other keys of the same length. */
async function ownCall(port: number, send: Send): Promise<(key: string) => Promise<unknown>> {
  const { args } = await recordCall(port, 1);
  const [command = '', sha1 = '', count = '', name = '', ...rest] = args;
  return (key) => send(command, sha1, count, `${key}${name.slice(key.length)}`, ...rest);
}

function subject(call: (key: string) => Promise<unknown>, disconnect: () => void): Subject {
  // It decides nothing; this is the answer that the check on answers expects.
  const answering = (allowed: boolean): Awaitable => ({ call, allowed: () => allowed, denied: () => false });
  return { ample: answering(true), tight: answering(false), close: async () => disconnect() };
}

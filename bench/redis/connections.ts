import { Redis } from 'ioredis';
import { createClient } from 'redis';

/** As its documentation opens it: one connection, no automatic pipelining. */
export function openIoredis(port: number): Redis {
  return new Redis({ host: '127.0.0.1', port });
}

/** What the suite uses of a node-redis client; its own type depends on every module it may load. */
export interface NodeRedis {
  sendCommand(args: string[]): Promise<unknown>;
  destroy(): void;
}

export async function openNodeRedis(port: number): Promise<NodeRedis> {
  const client = createClient({ url: `redis://127.0.0.1:${port}` });
  // Requests report their own errors; an event without a listener would end the process.
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

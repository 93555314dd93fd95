import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { freePort } from '../gateway/program.ts';

/** Where envoyproxy/ratelimit looks for files below its root; ours reads the same. */
const FILES = 'ratelimit/config';

/** Writes the one file with limits, and answers its folder. */
export function writeDescriptors(root: string, yaml: string): string {
  const directory = join(root, FILES);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'shop.yaml'), yaml);
  return directory;
}

interface ReferenceServer {
  readonly root: string;
  readonly port: number;
  readonly redisPort: number;
}

/** What envoyproxy/ratelimit is told, in its environment. */
export async function referenceEnvironment({
  root,
  port,
  redisPort,
}: ReferenceServer): Promise<Readonly<Record<string, string>>> {
  const [http, debug] = [await freePort(), await freePort()];
  return {
    RUNTIME_ROOT: root,
    RUNTIME_SUBDIRECTORY: 'ratelimit',
    RUNTIME_WATCH_ROOT: 'false',
    GRPC_HOST: '127.0.0.1',
    GRPC_PORT: String(port),
    HOST: '127.0.0.1',
    PORT: String(http),
    DEBUG_HOST: '127.0.0.1',
    DEBUG_PORT: String(debug),
    DISABLE_STATS: 'true',
    LOG_LEVEL: 'error',
    REDIS_SOCKET_TYPE: 'tcp',
    REDIS_URL: `127.0.0.1:${redisPort}`,
  };
}

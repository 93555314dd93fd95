// envoyproxy/ratelimit, built from its source, and our service with `compat: strict`, on the same files.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { startRedis } from '../../../../test/redis/servers.ts';
import { askRls, type RlsCall } from '../service/rls-client.ts';
import { startTestService } from '../service/running-service.ts';
import { folderWith, freePort, startProxyProcess } from './proxy-rig.ts';

const PREPARATION = new URL('../../../../scripts/prepare-system.sh', import.meta.url);
/** Which one, as `scripts/prepare-system.sh proxies` builds it. */
const VERSION = /^RATELIMIT=(\S+)$/m.exec(readFileSync(PREPARATION, 'utf8'))?.[1] ?? '';
const FOLDER = fileURLToPath(
  new URL(`../../../../node_modules/.cache/ratelimit-${VERSION}`, import.meta.url),
);
const PROGRAM = join(FOLDER, 'service_cmd');

/** The files that it comes with as an example. */
export function exampleFiles(): string {
  return join(FOLDER, 'config');
}

/** A folder with one file. */
export function filesOf(yaml: string): string {
  return folderWith({ 'shop.yaml': yaml });
}

export interface BothServers {
  /** The reference server's answer, and ours. */
  readonly ask: (call: RlsCall) => Promise<readonly [unknown, unknown]>;
}

/** Both read a copy of the files and count in a Redis of their own. */
export async function startBoth(files: string, compat: 'strict' | 'exact' = 'strict'): Promise<BothServers> {
  const redis = await startRedis();
  onTestFinished(async () => redis.stop());
  const folder = folderWith({});
  const directory = join(folder, 'ratelimit/config');
  mkdirSync(directory, { recursive: true });
  for (const name of readdirSync(files))
    writeFileSync(join(directory, name), readFileSync(join(files, name)));
  const [grpcPort, port, debugPort] = await Promise.all([freePort(), freePort(), freePort()]);
  await startProxyProcess({
    program: PROGRAM,
    args: [],
    folder,
    port: grpcPort,
    env: {
      RUNTIME_ROOT: folder,
      RUNTIME_SUBDIRECTORY: 'ratelimit',
      RUNTIME_WATCH_ROOT: 'false',
      GRPC_HOST: '127.0.0.1',
      GRPC_PORT: String(grpcPort),
      HOST: '127.0.0.1',
      PORT: String(port),
      DEBUG_HOST: '127.0.0.1',
      DEBUG_PORT: String(debugPort),
      USE_STATSD: 'false',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
    },
  });
  const ours = await startTestService(`
redis: { endpoints: ["127.0.0.1:${redis.port}"], read_timeout: 10s }
rate_limit: { deadline: 10s }
service: { rls: { compat: ${compat}, directory: ${JSON.stringify(directory)} } }
`);
  return { ask: async (call) => Promise.all([askRls(grpcPort, call), askRls(ours.port, call)]) };
}

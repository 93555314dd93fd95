// One server in a process of its own: node server-child.js <static|external>
import { createServer } from 'node:http';

import { createLimiter, type Policy, tokenBucket } from 'spillgate';
import { createLimitsSource, loadConfig } from 'spillgate-gateway';
import { createLimitsService, definePlans } from 'spillgate-gateway/limits-service';

/** Nobody is ever denied: what knowing the limits costs is the question. */
const PLENTY = 1_000_000_000;
const TENANTS = 1000;

type PoliciesOf = (key: string, rawHeaders: readonly string[]) => readonly Policy[];

process.on('disconnect', () => process.exit());
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuUs: user + system });
});

const limiter = createLimiter();
const policiesOf = process.argv[2] === 'external' ? await externalLimits() : staticLimits();
const keys = Array.from({ length: TENANTS }, (_, at) => `tenant-${at}`);
let requests = 0;

const server = createServer((request, response) => {
  requests += 1;
  const key = keys[requests % TENANTS] ?? '';
  const policies = policiesOf(key, request.rawHeaders);
  const { allowed, remaining } = limiter.checkSync(policies.map((policy) => policy.for(key)));
  response.writeHead(allowed ? 200 : 429, { 'Content-Length': 5, 'X-RateLimit-Remaining': remaining });
  response.end('hello');
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.send?.({ port: typeof address === 'object' ? address?.port : undefined });
});

function staticLimits(): PoliciesOf {
  const policies = [tokenBucket({ name: 'default', average: PLENTY, period: '1m' })];
  return () => policies;
}

/** Three plans from a service over HTTP, asked once for each tenant before anything is measured. */
async function externalLimits(): Promise<PoliciesOf> {
  const plan = definePlans({
    free: { average: PLENTY, period: '1m', cacheFor: '1h' },
    pro: { average: PLENTY, burst: PLENTY - 1, period: '1m', cacheFor: '1h' },
    big: { average: PLENTY, burst: PLENTY - 2, period: '1m', cacheFor: '1h' },
  });
  const names = ['free', 'pro', 'big'] as const;
  const service = createLimitsService({
    limits: ({ key }) => plan(names[Number(key.slice('tenant-'.length)) % names.length] ?? 'free'),
  });
  const { url } = await service.listen({ port: 0 });
  const settings = { rate_limit: { external: { enabled: true, http: { url } } } };
  const loaded = loadConfig({ file: { path: 'bench.json', text: JSON.stringify(settings) } });
  if (!loaded.ok) throw new Error('the configuration of the benchmark is wrong');
  const quiet = () => undefined;
  const source = createLimitsSource({
    config: loaded.config,
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    observer: { resolved: quiet },
  });
  for (const key of Array.from({ length: TENANTS }, (_, at) => `tenant-${at}`)) {
    await source.limitsFor({ key, method: 'GET', path: '/', headers: { raw: [] } });
  }
  return (key, raw) => {
    const limits = source.limitsFor({ key, method: 'GET', path: '/', headers: { raw } });
    if (limits instanceof Promise || limits.policies === undefined)
      throw new Error('an answer is not in the cache');
    return limits.policies;
  };
}

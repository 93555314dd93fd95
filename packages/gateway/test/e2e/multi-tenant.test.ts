// Three plans in a file, a service of ten lines, a gateway in front, and an upgrade while requests come in.
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { createLimitsService, definePlans } from '../../src/external/limits-service/index.ts';
import { GatewayProcess } from './gateway-process.ts';
import { startBackend } from './traffic.ts';

const plan = definePlans({
  free: { average: 10, burst: 5, period: '1s', cacheFor: '1s' },
  pro: { average: 40, burst: 20, period: '1s', cacheFor: '1s' },
  enterprise: { average: 0, cacheFor: '1s' },
});
type PlanName = Parameters<typeof plan>[0];

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

interface Answer {
  readonly status: number;
  /** What the gateway says that the limit is; undefined where there is none. */
  readonly limit: string | undefined;
}

async function ask(url: string, tenant: string): Promise<Answer> {
  const response = await fetch(url, { headers: { 'X-Tenant': tenant } });
  await response.arrayBuffer();
  return { status: response.status, limit: response.headers.get('x-ratelimit-limit') ?? undefined };
}

test.each(['http', 'grpc'] as const)(
  'a tenant that is upgraded gets its new limit when the answer of the service has run out, over %s',
  async (protocol) => {
    const file = join(await mkdtemp(join(tmpdir(), 'tenants-')), 'tenants.json');
    const save = async (tenants: Readonly<Record<string, PlanName>>) =>
      writeFile(file, JSON.stringify(tenants));
    await save({ ann: 'free', bob: 'pro', cyd: 'enterprise' });
    const service = createLimitsService({
      limits: async ({ key }) => {
        const tenants = JSON.parse(await readFile(file, 'utf8')) as Partial<Record<string, PlanName>>;
        const name = tenants[key];
        return name && plan(name, { tenantKey: key });
      },
    });
    const { url, grpcAddress, close } = await service.listen({ port: 0, grpcPort: 0 });
    const backend = await startBackend();
    const external = protocol === 'http' ? `http: { url: "${url}" }` : `grpc: { address: "${grpcAddress}" }`;
    const gateway = await GatewayProcess.start(`
server: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:0" }
backend: { url: "${backend.url}" }
logging: { access_log_enabled: false, decision_log: "off" }
rate_limit:
  average: 1
  period: 1h
  key_strategy: { type: header, header_name: X-Tenant }
  external: { enabled: true, timeout: 2s, request_fields: [], ${external} }
`);
    closers.push(
      close,
      async () => backend.close(),
      async () => gateway.remove(),
    );

    const answers = new Map<string, Answer[]>();
    const startedMs = performance.now();
    const askAll = async (): Promise<string | undefined> => {
      for (const tenant of ['bob', 'cyd', 'ann', 'ann']) {
        answers.set(tenant, [...(answers.get(tenant) ?? []), await ask(gateway.url, tenant)]);
      }
      return answers.get('ann')?.at(-1)?.limit;
    };
    for (let round = 0; round < 20; round += 1) await askAll();
    const before = answers.get('ann')?.map(({ limit }) => limit);
    await save({ ann: 'pro', bob: 'pro', cyd: 'enterprise' });
    await expect.poll(askAll).toBe('20');
    for (let round = 0; round < 20; round += 1) await askAll();

    const limitsOf = (tenant: string) => (answers.get(tenant) ?? []).map(({ limit }) => limit);
    expect(new Set(before)).toEqual(new Set(['5']));
    // Never back again: what was asked later counts.
    expect(new Set(limitsOf('ann').slice(limitsOf('ann').indexOf('20')))).toEqual(new Set(['20']));
    expect(new Set(limitsOf('bob'))).toEqual(new Set(['20']));
    expect(new Set((answers.get('cyd') ?? []).map(({ status }) => status))).toEqual(new Set([200]));
    const passed = (answers.get('ann') ?? []).filter(({ status }) => status === 200).length;
    expect(passed).toBeLessThanOrEqual(20 + (40 * (performance.now() - startedMs)) / 1000);
  },
);

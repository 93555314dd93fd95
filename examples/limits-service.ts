// Tells gateways the limits of each tenant, over HTTP and gRPC. The file is read with every question: an upgrade is an
// edit.
import { readFile } from 'node:fs/promises';
import { createLimitsService, definePlans } from 'spillgate-gateway/limits-service';

const plan = definePlans({
  free: { average: 10, period: '1s', cacheFor: '30s' },
  pro: { average: 100, burst: 200, period: '1s', cacheFor: '30s' },
  enterprise: { average: 5000, period: '1s', failurePolicy: 'failClosed', cacheFor: '5m' },
});
const service = createLimitsService({
  limits: async ({ key }) => {
    const tenant = (await tenants())[key];
    return tenant && plan(tenant.plan, { tenantKey: tenant.name });
  },
});
const { url, grpcAddress, close } = await service.listen({ port: 0, grpcPort: 0 });

for (const key of ['key-of-ann', 'key-of-bob', 'key-of-cyd', 'key-of-dan']) {
  const response = await fetch(url ?? '', { method: 'POST', body: JSON.stringify({ key }) });
  console.log(`${key}: ${response.status} ${await response.text()}`);
}
console.log(`gRPC too: ${grpcAddress !== undefined}`);
await close();

type Tenants = Partial<Record<string, { readonly name: string; readonly plan: Parameters<typeof plan>[0] }>>;

async function tenants(): Promise<Tenants> {
  const file: unknown = JSON.parse(await readFile(new URL('../tenants.json', import.meta.url), 'utf8'));
  return isTenants(file) ? file : {};
}

function isTenants(value: unknown): value is Tenants {
  return typeof value === 'object' && value !== null && Object.values(value).every((each) => 'plan' in each);
}

// From the first request on, never more than the policy admits: a gateway says that it is ready when its store decides.
import { afterAll, beforeAll, describe, expect, test, type TestContext } from 'vitest';
import { startRedis } from '../../../../test/redis/servers.ts';
import { TOPOLOGIES, withSlowConnections } from '../../../../test/redis/gateway-topologies.ts';
import { ADMITTED_AT_MOST, coldStart } from './cold-starts.ts';
import { GatewayProcess } from './gateway-process.ts';
import { burst, startBackend, type Backend } from './traffic.ts';

let backend: Backend;

beforeAll(async () => {
  backend = await startBackend();
});

afterAll(async () => backend.close());

type SlowStart = readonly [keyof typeof TOPOLOGIES, 'passThrough' | 'inMemoryFallback', number];

// They mostly wait, so they do it together; not all at once, because each starts up to ten processes.
const TOGETHER: readonly (readonly SlowStart[])[] = [
  [
    ['single', 'passThrough', 1],
    ['single', 'inMemoryFallback', 2],
    ['replication', 'passThrough', 1],
  ],
  [
    ['sentinel', 'passThrough', 1],
    ['sentinel', 'passThrough', 2],
  ],
  [
    ['cluster', 'passThrough', 2],
    ['shards', 'passThrough', 2],
  ],
];

describe.for(TOGETHER)('Redis, to which connecting takes longer than a decision may', (together) => {
  test.concurrent.for(together)('%s, %s, workers: %i', async (start, { onTestFinished }) => {
    const [name, failurePolicy, workers] = start;
    const topology = await withSlowConnections(await TOPOLOGIES[name](), 2500);
    onTestFinished(async () => topology.stop());
    // Longer than the deadline, which a busy machine keeps; shorter than what is waited for at the start.
    const times = { limits: ', deadline: 1s', redis: ', read_timeout: 5s, dial_timeout: 20s' };

    const { admitted } = await coldStart({ topology, backend, failurePolicy, workers, ...times });

    expect(admitted).toBe(ADMITTED_AT_MOST);
  });
});

function configWith(redis: string, { workers = 1, failurePolicy = 'passThrough' } = {}): string {
  return `
server: { address: "127.0.0.1:0", workers: ${workers} }
admin: { address: "127.0.0.1:0" }
backend: { url: "${backend.url}" }
logging: { access_log_enabled: false, decision_log: "off" }
${redis}
rate_limit: { average: 1, burst: ${ADMITTED_AT_MOST}, period: 1h, failure_policy: ${failurePolicy}, deadline: 1s }
`;
}

async function started(yaml: string, { onTestFinished }: TestContext): Promise<GatewayProcess> {
  const gateway = await GatewayProcess.start(yaml);
  onTestFinished(async () => gateway.remove());
  return gateway;
}

test.concurrent.for([1, 2])(
  'a reload with another Redis takes it into use when it decides, workers: %i',
  async (workers, context) => {
    const { onTestFinished } = context;
    const topology = await withSlowConnections(await TOPOLOGIES.single(), 2500);
    onTestFinished(async () => topology.stop());
    const before = await startRedis();
    onTestFinished(async () => before.stop());
    const gateway = await started(
      configWith(`redis: { endpoints: ["127.0.0.1:${before.port}"] }`, { workers }),
      context,
    );

    const reloaded = await gateway.reload(
      configWith(
        `redis: { endpoints: ["127.0.0.1:${topology.ports[0]}"], read_timeout: 5s, dial_timeout: 20s }`,
        {
          workers,
        },
      ),
    );
    const { statuses } = await burst([gateway.url], 20);

    expect(reloaded['outcome']).toBe('applied');
    expect(statuses.get(200)).toBe(ADMITTED_AT_MOST);
  },
);

describe.concurrent('a store that does not decide is an error in the log before the gateway is ready', () => {
  test('nobody listens there', async (context) => {
    const gateway = await started(
      configWith('redis: { endpoints: ["127.0.0.1:1"], dial_timeout: 200ms }'),
      context,
    );

    expect(storeLine(gateway)).toMatchObject({
      level: 'error',
      code: 'STORE_UNAVAILABLE',
      detail: expect.stringContaining('127.0.0.1:1'),
      msg: 'Redis does not decide: every request is admitted until it does',
    });
  });

  test.for([
    ['failClosed', 'every request is refused until it does'],
    ['inMemoryFallback', 'each process counts for itself until it does'],
  ] as const)('the password is wrong, %s', async ([failurePolicy, consequence], context) => {
    const server = await startRedis({ password: 'right' });
    context.onTestFinished(async () => server.stop());
    const redis = `redis: { endpoints: ["127.0.0.1:${server.port}"], password: wrong, dial_timeout: 1s }`;
    const gateway = await started(configWith(redis, { failurePolicy }), context);

    expect(storeLine(gateway)).toMatchObject({
      level: 'error',
      code: 'STORE_MISCONFIGURED',
      detail: expect.stringMatching(/(?:WRONGPASS|invalid password).*; set redis\.password/),
      msg: `Redis does not decide: ${consequence}`,
    });
    // What is wrong is known: where in our code it was noticed helps nobody.
    expect(gateway.lines.filter((line) => line['err'] !== undefined)).toEqual([]);
  });
});

/** What was said before the gateway was ready. */
function storeLine(gateway: GatewayProcess): unknown {
  const ready = gateway.lines.findIndex(({ msg }) => msg === 'the gateway is ready');
  return gateway.lines.slice(0, ready).find(({ msg }) => msg.startsWith('Redis does not decide'));
}

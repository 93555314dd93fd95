// Commands about keys on Redis alone, beside gateways that share it.
import { createLimiter, fixedWindow } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { startRedis, type RedisServer } from '../../../../test/redis/servers.ts';
import { GatewayProcess } from '../e2e/gateway-process.ts';
import { spillgate as run, type Outcome } from './terminal.ts';

const LIMITS = `
rate_limit:
  deadline: 5s
  policies: { calls: { algorithm: fixedWindow, quota: 100, window: 1h } }
  rules: [{ name: all, match: {}, key: { type: header, header_name: X-Api-Key }, policies: [calls] }]
`;
const FILE = 'spillgate.yaml';
const PARTS = '[{ type: header, header_name: X-Api-Key }, { type: clientIP }]';
const files = {
  [FILE]: LIMITS,
  'address.yaml': 'rate_limit: { average: 5 }\n',
  'parts.yaml': `rate_limit: { average: 5, key_strategy: { type: composite, parts: ${PARTS} } }\n`,
};
let redis: RedisServer;

const spillgate = async (args: readonly string[]): Promise<Outcome> => run(args, { files });

beforeAll(async () => {
  redis = await startRedis();
});

afterAll(async () => {
  await redis.stop();
});

const onRedis = (): readonly string[] => ['--redis', redis.url, '--config', FILE];

describe('without a gateway', () => {
  test('peek and forget see what an application with the library has counted', async () => {
    const limiter = createLimiter({ store: redisStore({ url: redis.url }), deadlineMs: 5000 });
    const policy = fixedWindow({ name: 'calls', quota: 100, window: '1h' });
    const key = (await spillgate(['key', 'calls', 'a-secret', '--config', FILE])).stdout.trim();
    await limiter.check(policy.for(key), { cost: 30 });

    const peeked = await spillgate(['peek', 'calls', 'a-secret', ...onRedis()]);
    const forgotten = await spillgate(['forget', 'calls', key, ...onRedis()]);
    const after = await limiter.peek(policy.for(key));
    await limiter.close();

    expect(key).toMatch(/^sha256:[\da-f]{32}$/);
    expect(peeked.stderr).toBe('');
    expect(peeked.stdout).toContain('70 of 100');
    expect(peeked.stdout).not.toContain('a-secret');
    expect(forgotten.stdout).toContain('as if it had never been used');
    expect(after.remaining).toBe(100);
  });

  test('without a configuration and without an instance nothing is known of the policies', async () => {
    // In a database of its own: what other instances have published is elsewhere.
    const { exitCode, stderr } = await spillgate(['peek', 'calls', 'x', '--redis', `${redis.url}/9`]);

    expect([exitCode, stderr]).toEqual([2, expect.stringMatching(/^No instance that runs publishes/)]);
  });

  test.each([
    [['--redis', 'localhost:6379'], /--redis is "localhost:6379"; expected redis:/],
    [['--redis', 'redis://127.0.0.1:1'], /redis:\/\/127\.0\.0\.1:1 cannot be asked/],
    [['--redis', 'redis://localhost', '--admin', 'localhost:1'], /not both/],
  ])('%j is refused', async (options, message) => {
    const { exitCode, stderr } = await spillgate(['keys', ...options]);

    expect(exitCode).toBe(2);
    expect(stderr).toMatch(message);
  });
});

test('what is set on Redis holds in a gateway within a second, and both list the same', async () => {
  const gateway = await GatewayProcess.start(`
server: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:0" }
backend: { url: "http://127.0.0.1:1" }
redis: { url: "${redis.url}", read_timeout: 1s }
logging: { access_log_enabled: false, decision_log: "off" }
${LIMITS}`);
  try {
    const ask = async (): Promise<string | null> =>
      (await fetch(gateway.url, { headers: { 'X-Api-Key': 'my-key' } })).headers.get('ratelimit-policy');
    // The policies come from what the gateway publishes.
    const words = [
      'override',
      'calls',
      'my-key',
      '--quota',
      '7',
      '--note',
      'ticket 12',
      '--redis',
      redis.url,
    ];
    await expect.poll(async () => (await spillgate(words)).exitCode, { timeout: PATIENCE_MS }).toBe(0);
    await expect.poll(ask, { timeout: PATIENCE_MS }).toContain('q=7;');
    const listed = await spillgate(['overrides', '--redis', redis.url]);
    const byGateway = await spillgate(['overrides', '--admin', gateway.adminUrl]);

    expect(listed.stdout).toMatch(
      /set at run time:\n {2}calls\/sha256:[\da-f]{32} {2}quota 7 {2}ticket 12\n/,
    );
    expect(byGateway.stdout).toBe(listed.stdout);
    await expect
      .poll(async () => (await spillgate(['keys', '--redis', redis.url])).stdout, { timeout: PATIENCE_MS })
      .toMatch(/busiest:\n +\d+ {2}calls\/sha256:[\da-f]{32} {2}\(\d of 7 left\)\n/);
  } finally {
    await gateway.remove();
  }
});

describe('spillgate key', () => {
  test('says if a key is nobody in the policy', async () => {
    const config = ['--config', 'address.yaml'];

    const network = await spillgate(['key', 'default', '2001:DB8::1', ...config]);
    const nobody = await spillgate(['key', 'default', 'acme', ...config]);
    const unknown = await spillgate(['key', 'other', 'acme', ...config]);

    expect(network.stdout).toBe('2001:db8::/64\n');
    expect(nobody.stdout).toMatch(
      /^acme\nwarning: no request through the gateway has this key: clients are counted/,
    );
    expect([unknown.exitCode, unknown.stderr]).toEqual([2, expect.stringContaining('default')]);
  });

  test('hashes the secret part of a composite key', async () => {
    const { stdout } = await spillgate([
      'key',
      'default',
      '6:secret,11:2001:db8::1',
      '--config',
      'parts.yaml',
    ]);

    expect(stdout).toMatch(/^39:sha256:[\da-f]{32},13:2001:db8::\/64\n/);
  });
});

test.each([
  ['peek'],
  ['forget'],
  ['override', '--burst', '7'],
  ['override', '--remove'],
  ['block'],
  ['block', '--remove'],
  ['key'],
])(
  '%s %s says if a key is nobody in the policy, and nothing if it is somebody',
  async (command, ...options) => {
    const about = async (key: string): Promise<string> => {
      const where = ['--config', 'address.yaml', ...(command === 'key' ? [] : ['--redis', redis.url])];
      const { exitCode, stdout, stderr } = await spillgate([command, 'default', key, ...options, ...where]);
      expect([exitCode, stderr]).toEqual([0, '']);
      return stdout;
    };

    expect(await about('acme')).toMatch(
      /^warning: no request through the gateway has this key: clients are counted/m,
    );
    expect(await about('203.0.113.7')).not.toContain('warning');
  },
);

// Every kind of Redis that a configuration can name, on real servers.
import { afterEach, describe, expect, test } from 'vitest';
import { createLimiter, tokenBucket } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import {
  eventually,
  startCluster,
  startRedis,
  startReplicated,
  startTls,
} from '../../../../test/redis/servers.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import {
  configuredLimiter,
  keepToPlan,
  type ConfiguredLimiter,
} from '../../src/runtime/configured-limiter.ts';

const closing: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

function limiterFor(yaml: string, current?: ConfiguredLimiter): ConfiguredLimiter {
  const loaded = loadConfig({ file: { path: 'a.yaml', text: yaml } });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const configured = configuredLimiter(loaded.config, current);
  if (configured !== current) closing.push(async () => configured.limiter.close());
  return configured;
}

/** What two checks of a limit of one come to, and who decided. */
async function twoChecks({ limiter }: ConfiguredLimiter): Promise<readonly string[]> {
  const limit = tokenBucket({ name: 'p', average: 1, period: '1h' }).for('k');
  await eventually('the store decides', async () => (await limiter.peek(limit)).source === 'store');
  const decisions = [await limiter.check(limit), await limiter.check(limit)];
  return decisions.map(({ allowed, source }) => `${allowed ? 'allowed' : 'denied'} by the ${source}`);
}

// The answer that took the last token said until when the next is denied. The store is only asked again by a process
// that stood still for a second in between.
const DECIDED = ['allowed by the store', expect.stringMatching(/^denied by the (denialCache|store)$/)];
const LIMITS = 'rate_limit: { average: 1, deadline: 2s }\n';
const TIMES = 'read_timeout: 2s, dial_timeout: 5s';

describe('a store as it is configured', () => {
  test('one server, with a user, a password and a database', async () => {
    const server = await startRedis({ password: 'sesame', acl: ['user gate on >secret ~* &* +@all'] });
    closing.push(async () => server.stop());

    const checks = await twoChecks(
      limiterFor(
        `${LIMITS}redis: { endpoints: ["127.0.0.1:${server.port}"], username: gate, password: secret, db: 3, ${TIMES} }`,
      ),
    );

    expect(checks).toEqual(DECIDED);

    expect(await server.command('INFO', 'keyspace')).toContain('db3:keys=1');
  });

  test('TLS with a client certificate', async () => {
    const { server, files } = await startTls();
    closing.push(async () => server.stop());

    const checks = await twoChecks(
      limiterFor(
        `${LIMITS}redis: { endpoints: ["127.0.0.1:${server.port}"], ${TIMES}, tls: { enabled: true, ca_file: "${files.ca}", cert_file: "${files.clientCert}", key_file: "${files.clientKey}" } }`,
      ),
    );

    expect(checks).toEqual(DECIDED);
  });

  test('a cluster', async () => {
    const cluster = await startCluster(3);
    closing.push(async () => cluster.stop());
    const endpoints = cluster.masters.map(({ port }) => `"127.0.0.1:${port}"`).join(', ');

    expect(
      await twoChecks(limiterFor(`${LIMITS}redis: { mode: cluster, endpoints: [${endpoints}], ${TIMES} }`)),
    ).toEqual(DECIDED);
  });

  test('a URL, whose user, password and database go first', async () => {
    const server = await startRedis({ password: 'sesame', acl: ['user gate on >sec%ret ~* &* +@all'] });
    closing.push(async () => server.stop());
    const url = `redis://gate:sec%25ret@127.0.0.1:${server.port}/3`;

    const checks = await twoChecks(
      limiterFor(`${LIMITS}redis: { url: "${url}", password: wrong, db: 1, ${TIMES} }`),
    );

    expect(checks).toEqual(DECIDED);
    expect(await server.command('INFO', 'keyspace')).toContain('db3:keys=1');
  });

  test('a URL with rediss://, which the files of the section are for', async () => {
    const { server, files } = await startTls();
    closing.push(async () => server.stop());

    const checks = await twoChecks(
      limiterFor(
        `${LIMITS}redis: { url: "rediss://127.0.0.1:${server.port}", ${TIMES}, tls: { ca_file: "${files.ca}", cert_file: "${files.clientCert}", key_file: "${files.clientKey}" } }`,
      ),
    );

    expect(checks).toEqual(DECIDED);
  });

  test('URLs of sentinels, without a password and with the one of the section', async () => {
    const group = await startReplicated({ sentinelPassword: 'watch' });
    closing.push(async () => group.stop());
    const [first = '', ...others] = group.sentinels.map(({ port }) => `127.0.0.1:${port}`);
    const urls = [`redis://:watch@${first}`, ...others.map((address) => `redis://${address}`)];

    const checks = await twoChecks(
      limiterFor(
        `${LIMITS}redis: { mode: sentinel, master_name: ${group.masterName}, sentinel_password: watch, url: ${JSON.stringify(urls)}, ${TIMES} }`,
      ),
    );

    expect(checks).toEqual(DECIDED);
  });

  test('replication, of which the master may stand anywhere, and a promotion is followed', async () => {
    const master = await startRedis();
    closing.push(async () => master.stop());
    const replica = await startRedis({ config: [`replicaof 127.0.0.1 ${master.port}`] });
    closing.push(async () => replica.stop());
    const endpoints = `["127.0.0.1:${replica.port}", "127.0.0.1:${master.port}"]`;
    const configured = limiterFor(`${LIMITS}redis: { mode: replication, endpoints: ${endpoints}, ${TIMES} }`);

    expect(await twoChecks(configured)).toEqual(DECIDED);
    await eventually('the replica has it', async () => (await replica.command('DBSIZE')) === 1);
    await replica.command('REPLICAOF', 'NO', 'ONE');
    await master.command('REPLICAOF', '127.0.0.1', replica.port);
    await eventually('the promoted one decides', async () => {
      const { nodes } = await configured.limiter.health();
      return nodes[0]?.name === `127.0.0.1:${replica.port}` && nodes[0].status === 'up';
    });

    const limit = tokenBucket({ name: 'p', average: 1, period: '1h' }).for('k');
    expect(await configured.limiter.check(limit)).toMatchObject({ allowed: false, degraded: false });
  });

  test('shards with names and weights, as the library places keys', async () => {
    const servers = await Promise.all([startRedis(), startRedis()]);
    closing.push(...servers.map((server) => async () => server.stop()));
    const [red, blue] = servers;
    const { limiter } = limiterFor(`${LIMITS}redis:
  mode: shards
  shards:
    - { name: red, endpoint: "127.0.0.1:${red.port}", weight: 3 }
    - { name: blue, url: "redis://127.0.0.1:${blue.port}" }
  read_timeout: 2s
  dial_timeout: 5s
`);
    const library = createLimiter({
      deadlineMs: 2000,
      store: redisStore({
        timeoutMs: 2000,
        shards: [
          { name: 'blue', url: `redis://127.0.0.1:${blue.port}` },
          { name: 'red', url: `redis://127.0.0.1:${red.port}`, weight: 3 },
        ],
      }),
    });
    closing.push(async () => library.close());
    const limits = Array.from({ length: 100 }, (_, at) =>
      tokenBucket({ name: 'p', average: 1, period: '1h' }).for(`key-${at}`),
    );

    await Promise.all(limits.map((limit) => limiter.check(limit)));
    const again = await Promise.all(limits.map((limit) => library.check(limit)));

    expect(new Set(again.map(({ allowed, source }) => `${allowed} ${source}`))).toEqual(
      new Set(['false store']),
    );
    const sizes = (await Promise.all(servers.map((server) => server.command('DBSIZE')))).map(Number);
    expect(sizes[0]).toBeGreaterThan(60);
    expect(sizes[1]).toBeGreaterThan(10);
  });

  test('a primary that sentinels watch, and the same one by replication', async () => {
    const group = await startReplicated();
    closing.push(async () => group.stop());
    const sentinels = group.sentinels.map(({ port }) => `"127.0.0.1:${port}"`).join(', ');

    const checks = await twoChecks(
      limiterFor(
        `${LIMITS}redis: { mode: sentinel, master_name: ${group.masterName}, endpoints: [${sentinels}], key_prefix: "a:", ${TIMES} }`,
      ),
    );

    expect(checks).toEqual(DECIDED);
    const again = await twoChecks(
      limiterFor(
        `${LIMITS}redis: { mode: replication, endpoints: ["127.0.0.1:${(await group.master())?.port}", ${sentinels}], key_prefix: "b:", ${TIMES} }`,
      ),
    );

    expect(again).toEqual(DECIDED);
  });
});

describe('a limiter is kept', () => {
  const redis = 'redis: { endpoints: ["127.0.0.1:1"] }';

  test('while nothing that it depends on changes', () => {
    const first = limiterFor(`${LIMITS}${redis}`);

    expect(limiterFor(`rate_limit: { average: 9, deadline: 2s }\n${redis}`, first)).toBe(first);
  });

  test.each([
    ['another deadline', `rate_limit: { average: 1, deadline: 3s }\n${redis}`],
    [
      'another failure policy',
      `rate_limit: { average: 1, deadline: 2s, failure_policy: failClosed }\n${redis}`,
    ],
    ['another server', `${LIMITS}redis: { endpoints: ["127.0.0.1:2"] }`],
    ['other workers, which share what the fallback gives', `server: { workers: 2 }\n${LIMITS}${redis}`],
    ['memory', LIMITS],
  ])('and not with %s', (_, yaml) => {
    const first = limiterFor(`${LIMITS}${redis}`);

    expect(limiterFor(yaml, first)).not.toBe(first);
  });

  test('the fallback of each worker gives its part of the part of the gateway', () => {
    const { plan } = limiterFor(`server: { workers: 4 }\nrate_limit: { average: 1, instances: 3 }\n${redis}`);

    expect(plan).toMatchObject({ redis: { instances: 12 } });
  });
});

test('max_keys bounds what inMemoryFallback keeps while Redis is away, and a reload changes it', async () => {
  const yaml = (maxKeys: number): string =>
    `rate_limit: { average: 1, max_keys: ${maxKeys}, failure_policy: inMemoryFallback }\nredis: { endpoints: ["127.0.0.1:1"] }`;
  const configured = limiterFor(yaml(1));
  const { limiter } = configured;
  const policy = tokenBucket({ name: 'p', average: 1, period: '1h' });
  const overflows: string[] = [];
  limiter.on('overflow', ({ policy: name }) => overflows.push(name));

  await limiter.check(policy.for('ann'));
  await limiter.check(policy.for('bob'));
  expect(overflows).toEqual(['p']);
  const next = limiterFor(yaml(1000), configured);
  keepToPlan(next);

  expect(next.limiter).toBe(limiter);
  expect((await limiter.check(policy.for('cid'))).source).toBe('fallback');
});

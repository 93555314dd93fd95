import { expect, test } from 'vitest';
import {
  eventually,
  type RedisServer,
  startCluster,
  startRedis,
  startReplicated,
  startTls,
} from '../../../../test/redis/servers.ts';
import { type ScriptedService, says, scriptedService } from './scripted-service.ts';
import { PLAN } from './services.ts';
import { question, testSource } from './sources.ts';

function gateway(service: ScriptedService, settings: object) {
  const made = testSource({ external: { http: { url: 'http://127.0.0.1:1/' } }, ...settings }, { service });
  return { ...made, ask: async () => made.source.limitsFor(question('a')) };
}

test('a password, TLS, sentinels, replication, shards and a cluster all keep answers', async () => {
  const plain = await startRedis({ password: 'hunter2' });
  const { server: secure, files } = await startTls();
  const replicated = await startReplicated();
  const cluster = await startCluster(3);
  const [red, blue] = await Promise.all([startRedis(), startRedis()]);
  const address = ({ host, port }: RedisServer) => `${host}:${port}`;
  const sections = [
    { endpoints: [address(plain)], password: 'hunter2' },
    {
      endpoints: [address(secure)],
      tls: { enabled: true, ca_file: files.ca, cert_file: files.clientCert, key_file: files.clientKey },
    },
    { endpoints: replicated.sentinels.map(address), mode: 'sentinel', master_name: replicated.masterName },
    { endpoints: cluster.nodes.map(address), mode: 'cluster' },
    { url: `redis://:hunter2@${address(plain)}/1` },
    { endpoints: replicated.servers.map(address).toReversed(), mode: 'replication', key_prefix: 'again:' },
    { mode: 'shards', shards: [{ endpoint: address(red) }, { name: 'blue', url: blue.url, weight: 2 }] },
  ];

  for (const one of sections) {
    const service = scriptedService(async () => says(PLAN, 'max-age=60'));
    const first = gateway(service, { redis: { ...one, read_timeout: '5s', dial_timeout: '5s' } });
    await first.ask();
    await eventually('stored', () => Promise.resolve(first.told.events.includes('write stored')));
    const second = gateway(service, { redis: { ...one, read_timeout: '5s', dial_timeout: '5s' } });
    expect(await second.ask()).toMatchObject({ step: 'cache' });
    await Promise.all([first.source.close(), second.source.close()]);
  }
  await Promise.all([plain.stop(), secure.stop(), replicated.stop(), cluster.stop()]);
  await Promise.all([red.stop(), blue.stop()]);
});

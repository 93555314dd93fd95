import { LimiterError } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { describe, expect, test } from 'vitest';

const URL = 'redis://localhost:6379';
const SECRET = 's3cret';

/** What somebody without the types may pass, and what the message has to name. */
const MISTAKES: readonly (readonly [what: string, options: unknown, message: string])[] = [
  [
    'nothing',
    {},
    'redisStore() got no address; pass exactly one of url, client, sentinel, replication, cluster, shards.',
  ],
  ['two places', { url: URL, cluster: { urls: [URL] } }, 'got url and cluster; pass exactly one'],
  ['an unknown option', { url: URL, sharding: [] }, 'sharding'],
  ['a url that is none', { url: 'localhost:6379' }, 'url is "localhost:6379"; expected redis://host:port'],
  ['another protocol', { url: 'http://localhost' }, 'url is "http://localhost"; expected redis://'],
  ['a database that is none', { url: `${URL}/api` }, 'with /0 to /65535 for another database'],
  ['a number as a url', { url: 6379 }, 'url is 6379; expected'],
  ['a client that is none', { client: {} }, 'client is an object; expected a connected client of ioredis'],
  ['a text as a client', { client: 'redis' }, 'client is "redis"; expected a connected client'],
  ['an empty prefix', { url: URL, prefix: '' }, 'prefix is ""; expected 1 to 64 letters'],
  ['a prefix with a hash tag', { url: URL, prefix: '{a}' }, 'prefix is "{a}"; expected 1 to 64 letters'],
  ['a long prefix', { url: URL, prefix: 'x'.repeat(65) }, 'expected 1 to 64 letters'],
  [
    'no timeout',
    { url: URL, timeoutMs: 0 },
    'timeoutMs is 0; expected an integer from 1 to 60000 milliseconds',
  ],
  ['an endless timeout', { url: URL, timeoutMs: Infinity }, 'timeoutMs is Infinity'],
  ['a fraction', { url: URL, connectTimeoutMs: 1.5 }, 'connectTimeoutMs is 1.5; expected an integer'],
  ['a negative database', { url: URL, database: -1 }, 'database is -1; expected an integer from 0 to 65535.'],
  ['an empty password', { url: URL, password: '' }, 'password is empty; expected a text, or leave it out.'],
  ['a password that is no text', { url: URL, password: 7 }, 'password is a number; expected a text'],
  ['a user that is no text', { url: URL, username: {} }, 'username is a object'],
  ['an unknown certificate', { url: URL, tls: { certificate: '' } }, 'certificate'],
  ['an unknown package', { url: URL, clientPackage: 'pg' }, 'clientPackage is "pg"; choose one of "ioredis"'],
  [
    'a cluster without nodes',
    { cluster: { urls: [] } },
    'cluster.urls is an array of 0; expected a list of 1 to 256',
  ],
  ['a cluster that is a list', { cluster: [URL] }, 'cluster'],
  [
    'replication without servers',
    { replication: { urls: [] } },
    'replication.urls is an array of 0; expected a list of 1 to 256',
  ],
  [
    'replication with a server twice',
    { replication: { urls: [URL, URL] } },
    'replication.urls names localhost:6379 twice; name each server once.',
  ],
  ['a bad node', { cluster: { urls: [URL, 'x'] } }, 'cluster.urls[1] is "x"; expected redis://'],
  [
    'sentinels without a name',
    { sentinel: { urls: [URL] } },
    "sentinel.name is undefined; expected the master's name",
  ],
  ['no sentinels', { sentinel: { name: 'main', urls: [] } }, 'sentinel.urls is an array of 0'],
  ['a bad sentinel', { sentinel: { name: 'main', urls: [7] } }, 'sentinel.urls[0] is 7; expected redis://'],
  ['no shards', { shards: [] }, 'shards is an array of 0; expected a list of 1 to 256 urls'],
  ['shards that are no list', { shards: URL }, 'expected a list of 1 to 256 urls'],
  ['a bad shard', { shards: [URL, 'b:6379'] }, 'shards[1].url is "b:6379"; expected redis://'],
  ['a shard without a place', { shards: [{ name: 'a' }] }, 'shards[0] has neither a url nor a client'],
  ['a shard with two', { shards: [{ name: 'a', url: URL, client: {} }] }, 'shards[0] has a url and a client'],
  [
    'a client without a name',
    { shards: [{ client: { call: () => undefined } }] },
    'shards[0].name is undefined',
  ],
  [
    'a name with a space',
    { shards: [{ name: 'a b', url: URL }] },
    'shards[0].name is "a b"; expected 1 to 128',
  ],
  [
    'a weight of nothing',
    { shards: [{ url: URL, weight: 0 }] },
    'shards[0].weight is 0; expected a number above 0',
  ],
  ['a weight that is none', { shards: [{ url: URL, weight: 'x' }] }, 'shards[0].weight is "x"'],
  ['the same shard twice', { shards: [URL, URL] }, 'Two shards are named "localhost:6379"'],
];

describe('a mistake in the options is refused at once, and named', () => {
  test.each(MISTAKES)('%s', (_what, options, message) => {
    let error: unknown;
    try {
      redisStore(options as RedisStoreOptions);
    } catch (thrown) {
      error = thrown;
    }

    expect(error).toBeInstanceOf(LimiterError);
    expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining(message) });
  });
});

test.each([
  { url: `http://user:${SECRET}@host` },
  { url: `redis://user:${SECRET}@host/api` },
  { cluster: { urls: [`redis://user:${SECRET}@`] } },
  { sentinel: { name: 'a', urls: [`tcp://:${SECRET}@host`] } },
  { shards: [`tcp://:${SECRET}@host`] },
])('no message repeats a password: %j', (options) => {
  expect(() => redisStore(options)).toThrow(LimiterError);
  expect(() => redisStore(options)).not.toThrow(SECRET);
});

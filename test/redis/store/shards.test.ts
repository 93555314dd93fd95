import { rendezvous } from '#limiter/stores/redis/rendezvous.js';
import { keyName, tagOf } from '#limiter/stores/redis/protocol.js';
import * as fc from 'fast-check';
import { createLimiter, tokenBucket } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { describe, expect, test } from 'vitest';
import { startShards } from '../servers.ts';
import { openRaw } from './clients.ts';

const KEYS = 200_000;
const ten = tokenBucket({ name: 'ten', average: 10, burst: 10, period: '1h' });
const tags = Array.from({ length: KEYS }, (_, at) => tagOf(keyName('spillgate:', ten.for(`user-${at}`))));

function place(members: readonly { name: string; weight: number }[]): readonly string[] {
  const memberOf = rendezvous(members);
  return tags.map((tag) => memberOf(tag).name);
}

function even(...names: readonly string[]): { name: string; weight: number }[] {
  return names.map((name) => ({ name, weight: 1 }));
}

function shareOf(name: string, placed: readonly string[]): number {
  return placed.filter((other) => other === name).length / placed.length;
}

describe('200,000 keys', () => {
  const three = place(even('a:6379', 'b:6379', 'c:6379'));
  const four = place(even('a:6379', 'b:6379', 'c:6379', 'd:6379'));

  test('spread evenly', () => {
    for (const name of ['a:6379', 'b:6379', 'c:6379']) {
      expect(shareOf(name, three)).toBeGreaterThan(0.32);
      expect(shareOf(name, three)).toBeLessThan(0.347);
    }
  });

  test('move only to a new shard, at most 26 % of them, and back when it leaves', () => {
    const moved = three.filter((name, at) => name !== four[at]).length;

    expect(moved / KEYS).toBeLessThanOrEqual(0.26);
    expect(moved / KEYS).toBeGreaterThan(0.24);
    expect(three.filter((name, at) => name !== four[at] && four[at] !== 'd:6379')).toEqual([]);
    // Losing a shard is the same the other way round: whoever was not on it stays.
    expect(place(even('a:6379', 'b:6379', 'c:6379'))).toEqual(three);
  });

  test('spread by weight, and a change of weight moves no more than the change', () => {
    const weighted = place([
      { name: 'a:6379', weight: 1 },
      { name: 'b:6379', weight: 1 },
      { name: 'c:6379', weight: 2 },
    ]);

    expect(shareOf('c:6379', weighted)).toBeGreaterThan(0.49);
    expect(shareOf('c:6379', weighted)).toBeLessThan(0.51);
    expect(three.filter((name, at) => name !== weighted[at] && weighted[at] !== 'c:6379')).toEqual([]);
  });

  test('do not care for the order of the list', () => {
    expect(place(even('d:6379', 'b:6379', 'a:6379', 'c:6379'))).toEqual(four);
  });
});

test('any list in any order places a key the same', () => {
  const members = fc.uniqueArray(
    fc.record({ name: fc.string({ minLength: 1, maxLength: 20 }), weight: fc.integer({ min: 1, max: 9 }) }),
    { minLength: 1, maxLength: 12, selector: ({ name }) => name },
  );
  fc.assert(
    fc.property(members, fc.string(), fc.nat(), (list, text, rotation) => {
      const at = rotation % list.length;
      const turned = [...list.slice(at), ...list.slice(0, at)].toReversed();
      expect(rendezvous(turned)(text).name).toBe(rendezvous(list)(text).name);
    }),
  );
});

test('a key stays where it is from release to release', () => {
  const memberOf = rendezvous(even('a:6379', 'b:6379', 'c:6379'));

  const placed = ['', '{a}', '{b}', '{c}', '{d}', '{e}'].map((tag) => memberOf(tag).name[0]).join('');

  expect(placed).toBe('bbcacc');
});

test('each key lives on one shard, by the names given, whatever the order', async () => {
  const shards = await startShards(3);
  const list = shards.servers.map(({ url }, at) => ({ name: `shard-${at}`, url }));
  const ahead = redisStore({ shards: list });
  const behind = redisStore({ shards: list.toReversed() });
  await Promise.all([ahead.ready(), behind.ready()]);
  const [first, second] = [ahead, behind].map((store) =>
    createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: 5000 }),
  );

  for (let at = 0; at < 60; at += 1) {
    const limit = ten.for(`user-${at}`);
    await first?.check(limit, { cost: 4 });
    expect((await second?.check(limit))?.remaining).toBe(5);
  }

  const sizes = await Promise.all(
    shards.servers.map(async (server) => {
      const raw = openRaw(server);
      const size = await raw.dbsize();
      raw.disconnect();
      return size;
    }),
  );
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(60);
  expect(Math.min(...sizes)).toBeGreaterThan(5);
  await first?.close();
  await second?.close();
  await shards.stop();
});

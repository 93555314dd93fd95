import { expect, test } from 'vitest';
import { Authorizer } from '../../src/authorization/authorizer.ts';
import { loadConfig } from '../../src/index.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { facts } from '../rules/facts.ts';

const BODY = 'x'.repeat(60_000);

/** A service that refuses everything at length, and counts how often it was asked about each path. */
function refusing(maxCached: number) {
  const asked = new Map<string, number>();
  const text = `authorization: { enabled: true, http: { url: "http://127.0.0.1:1" }, cache_ttl: 1h, max_cached: ${maxCached} }`;
  const loaded = loadConfig({ file: { path: 'gateway.yaml', text } });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const { config } = loaded;
  const authorizer = new Authorizer({
    config: config.authorization,
    service: {
      ask: async ({ target }) => {
        asked.set(target, (asked.get(target) ?? 0) + 1);
        return {
          verdict: { allowed: false, status: 403, headers: [], body: BODY },
          cacheHeaders: undefined,
        };
      },
      close: () => undefined,
    },
    log: createLogger({ config: config.logging, output: () => undefined }),
  });
  const ask = async (count: number): Promise<void> => {
    for (let at = 0; at < count; at += 1) await authorizer.authorize(facts({ path: `/${at}` }));
  };
  return { asked, ask };
}

test('long answers are bounded by how long they are together, not only by how many there are', async () => {
  const { asked, ask } = refusing(10_000);

  await ask(1000);
  await ask(1000);

  // Of 60 MB, 32 are kept: whoever asks in order never finds its own.
  expect(asked.get('/0')).toBe(2);
  expect(asked.get('/999')).toBe(2);
});

test('what fits is kept', async () => {
  const { asked, ask } = refusing(10_000);

  await ask(500);
  await ask(500);

  expect([...new Set(asked.values())]).toEqual([1]);
});

test('there are never more of them than max_cached', async () => {
  const { asked, ask } = refusing(10);

  await ask(11);
  await ask(11);

  expect([...new Set(asked.values())]).toEqual([2]);
});

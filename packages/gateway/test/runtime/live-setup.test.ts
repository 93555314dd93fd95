// Reloads without sockets: what is kept, what is replaced, and what is refused.
import { createServer } from 'node:http';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createOverrides } from '../../src/admin/overrides.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { formatProblem } from '../../src/config/problem.ts';
import { NO_CHANGE } from '../../src/runtime/change.ts';
import { ConfigRefused, LiveSetup, type LiveSetupParts } from '../../src/runtime/live-setup.ts';
import { listenOn } from '../../src/runtime/listen.ts';
import { facts, statusOf } from '../rules/facts.ts';

const SILENT = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
const opened: LiveSetup[] = [];

afterEach(async () => {
  await Promise.all(opened.splice(0).map(async (setups) => setups.close()));
});

interface Started {
  readonly setups: LiveSetup;
  readonly write: (yaml: string) => void;
  readonly swaps: () => number;
}

async function start(
  yaml: string,
  prepare: LiveSetupParts['prepare'] = async () => Promise.resolve(NO_CHANGE),
): Promise<Started> {
  let text = yaml;
  let swaps = 0;
  const setups = await LiveSetup.start({
    readConfig: () => {
      if (text === 'throw') throw new Error('planted');
      return loadConfig({ file: { path: 'a.yaml', text } });
    },
    tools: {
      log: SILENT,
      version: '1.2.3',
      onDecision: () => undefined,
      demoOrigin: async () => Promise.resolve('http://127.0.0.1:1'),
    },
    prepare,
    swapped: () => {
      swaps += 1;
    },
  });
  opened.push(setups);
  return {
    setups,
    write: (next) => {
      text = next;
    },
    swaps: () => swaps,
  };
}

function ask(setups: LiveSetup): number {
  const ruling = setups.current().gate.rule(facts());
  if (ruling instanceof Promise) throw new Error('the answer has to come at once');
  return statusOf(ruling);
}

describe('a reload', () => {
  test('of the same text changes nothing', async () => {
    const { setups, swaps } = await start('rate_limit: { average: 1 }');
    const before = setups.current();

    expect(await setups.reload()).toEqual({ outcome: 'unchanged', generation: 1, problems: [] });
    expect(setups.current()).toBe(before);
    expect(swaps()).toBe(0);
  });

  test('keeps the store, so what was spent stays spent', async () => {
    const { setups, write } = await start('rate_limit: { average: 1, period: 1h }');
    expect([ask(setups), ask(setups)]).toEqual([200, 429]);
    const { limiter, upstreams } = setups.current();

    write('rate_limit: { average: 1, period: 1h, headers: [draft] }');

    expect(await setups.reload()).toMatchObject({ outcome: 'applied', generation: 2 });
    expect(setups.current().limiter).toBe(limiter);
    expect(setups.current().upstreams).toBe(upstreams);
    expect(ask(setups)).toBe(429);
  });

  test('a raised limit frees only the difference', async () => {
    const { setups, write } = await start('rate_limit: { average: 2, period: 1h }');
    expect([ask(setups), ask(setups), ask(setups)]).toEqual([200, 200, 429]);

    write('rate_limit: { average: 3, period: 1h }');
    await setups.reload();

    expect([ask(setups), ask(setups)]).toEqual([200, 429]);
  });

  test('a refused one changes nothing, says why, and a good one after it is applied', async () => {
    const { setups, write } = await start('rate_limit: { average: 1 }');
    const before = setups.current();
    write('rate_limit: { averag: 1, burst: 0 }');

    const refused = await setups.reload();

    expect(refused.outcome).toBe('refused');
    expect(refused.problems.map(formatProblem)).toHaveLength(2);
    expect(setups.current()).toBe(before);
    expect(setups.lastReload()).toMatchObject({ outcome: 'refused', generation: 1 });
    write('rate_limit: { average: 2 }');
    expect(await setups.reload()).toMatchObject({ outcome: 'applied', generation: 2 });
  });

  test('a reader that breaks is a refusal like any other', async () => {
    const { setups, write } = await start('rate_limit: { average: 1 }');
    write('throw');

    expect(await setups.reload()).toMatchObject({ outcome: 'refused', problems: [{ message: 'planted' }] });
  });

  test.each([
    ['1', '2', 'change it back to 1'],
    ['2', '1', 'use 2 or more'],
  ])(
    'names the setting that needs a restart, and where it stands: %s to %s workers',
    async (from, to, hint) => {
      const redis = 'redis: { endpoints: ["127.0.0.1:1"] }';
      const { setups, write } = await start(`server: { workers: ${from} }\n${redis}`);
      write(`server: { workers: ${to} }\n${redis}`);

      expect((await setups.reload()).problems.map(formatProblem)).toEqual([
        `a.yaml:1:20: error: server.workers cannot change from ${from} to ${to} while the gateway runs: one process is put together differently from several. Restart the gateway to change it, or ${hint}.`,
      ]);
    },
  );

  test('names the certificate of the external service that cannot be read, and where it stands', async () => {
    const { setups, write } = await start('rate_limit: { average: 1 }');
    write(
      'rate_limit: { external: { enabled: true, grpc: { address: "a:1", tls: { enabled: true, ca_file: /none.pem } } } }',
    );

    expect((await setups.reload()).problems.map(formatProblem)).toEqual([
      expect.stringMatching(
        /^a\.yaml:1:\d+: error: rate_limit\.external\.grpc\.tls\.ca_file: \/none\.pem cannot be read \(ENOENT\)/,
      ),
    ]);
  });

  test('does not throw away the table of keys', async () => {
    const { setups, write } = await start('rate_limit: { average: 1 }');
    write('rate_limit: { average: 1, max_keys: 5 }');

    expect((await setups.reload()).problems.map(formatProblem)).toEqual([
      expect.stringMatching(
        /^a\.yaml:1:37: error: rate_limit\.max_keys cannot change .* Restart the gateway/,
      ),
    ]);
  });

  test('overrides of operators hold in the same turn, as long as the policy exists', async () => {
    const first = await start('rate_limit: { average: 1, period: 1h }');
    const overrides = createOverrides({
      live: () => first.setups.live(),
      policies: () => first.setups.current().policies,
    });
    overrides.set({ policy: 'default', key: '203.0.113.7', numbers: { average: 3 } });
    first.write('rate_limit: { average: 2, period: 1h }');

    await first.setups.reload();
    const dropped = overrides.reapply();

    expect(dropped).toEqual([]);
    expect([ask(first.setups), ask(first.setups), ask(first.setups), ask(first.setups)]).toEqual([
      200, 200, 200, 429,
    ]);
  });
});

test('a request that waits while two configurations go by is still counted', async () => {
  let answer: (() => void) | undefined;
  const service = createServer((_, response) => {
    answer = () => response.writeHead(503).end();
  });
  const { port } = await listenOn(service, '127.0.0.1:0');
  onTestFinished(() => void service.close());
  const limits = `average: 1, period: 1h, failure_policy: passThrough, external: { enabled: true, timeout: 5s, http: { url: "http://127.0.0.1:${port}/" } }`;
  const { setups, write } = await start(`rate_limit: { ${limits} }`);
  const ruling = setups.current().gate.rule(facts());
  await vi.waitFor(() => expect(answer).toBeDefined());

  write(`rate_limit: { ${limits}, headers: [draft] }`);
  await setups.reload();
  write(`rate_limit: { ${limits} }\nredis: { endpoints: ["127.0.0.1:1"] }`);
  expect((await setups.reload()).outcome).toBe('applied');
  // Longer than the old parts are kept for requests that have passed the gate.
  await new Promise((resolve) => setTimeout(resolve, 1200));
  answer?.();

  expect((await ruling).detail.reason).toBe('limits');
});

test('a first configuration that cannot be used is refused with all problems', async () => {
  await expect(start('rate_limit: { averag: 1, burst: 0 }')).rejects.toThrow(ConfigRefused);
});

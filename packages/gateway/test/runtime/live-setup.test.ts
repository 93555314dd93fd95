// Reloads without sockets: what is kept, what is replaced, and what is refused.
import { createServer } from 'node:http';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createOverrides } from '../../src/admin/overrides.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { formatProblem } from '../../src/config/problem.ts';
import { ConfigRefused, LiveSetup } from '../../src/runtime/live-setup.ts';
import { listenOn } from '../../src/runtime/listen.ts';
import { closeSetup } from '../../src/runtime/setup.ts';
import { facts, statusOf } from '../rules/facts.ts';

const SILENT = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
const opened: LiveSetup[] = [];

afterEach(async () => {
  await Promise.all(opened.splice(0).map(async (setups) => closeSetup(setups.current())));
});

function start(yaml: string): { setups: LiveSetup; write: (yaml: string) => void; swaps: () => number } {
  let text = yaml;
  let swaps = 0;
  const setups = new LiveSetup({
    readConfig: () => {
      if (text === 'throw') throw new Error('planted');
      return loadConfig({ file: { path: 'a.yaml', text } });
    },
    tools: { log: SILENT, onDecision: () => undefined, demoOrigin: () => 'http://127.0.0.1:1' },
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
  test('of the same text changes nothing', () => {
    const { setups, swaps } = start('rate_limit: { average: 1 }');
    const before = setups.current();

    expect(setups.reload()).toEqual({ outcome: 'unchanged', generation: 1, problems: [] });
    expect(setups.current()).toBe(before);
    expect(swaps()).toBe(0);
  });

  test('keeps the store, so what was spent stays spent', () => {
    const { setups, write } = start('rate_limit: { average: 1, period: 1h }');
    expect([ask(setups), ask(setups)]).toEqual([200, 429]);
    const { limiter, upstreams } = setups.current();

    write('rate_limit: { average: 1, period: 1h, headers: [draft] }');

    expect(setups.reload()).toMatchObject({ outcome: 'applied', generation: 2 });
    expect(setups.current().limiter).toBe(limiter);
    expect(setups.current().upstreams).toBe(upstreams);
    expect(ask(setups)).toBe(429);
  });

  test('a raised limit frees only the difference', () => {
    const { setups, write } = start('rate_limit: { average: 2, period: 1h }');
    expect([ask(setups), ask(setups), ask(setups)]).toEqual([200, 200, 429]);

    write('rate_limit: { average: 3, period: 1h }');
    setups.reload();

    expect([ask(setups), ask(setups)]).toEqual([200, 429]);
  });

  test('a refused one changes nothing, says why, and a good one after it is applied', () => {
    const { setups, write } = start('rate_limit: { average: 1 }');
    const before = setups.current();
    write('rate_limit: { averag: 1, burst: 0 }');

    const refused = setups.reload();

    expect(refused.outcome).toBe('refused');
    expect(refused.problems.map(formatProblem)).toHaveLength(2);
    expect(setups.current()).toBe(before);
    expect(setups.lastReload()).toMatchObject({ outcome: 'refused', generation: 1 });
    write('rate_limit: { average: 2 }');
    expect(setups.reload()).toMatchObject({ outcome: 'applied', generation: 2 });
  });

  test('a reader that breaks is a refusal like any other', () => {
    const { setups, write } = start('rate_limit: { average: 1 }');
    write('throw');

    expect(setups.reload()).toMatchObject({ outcome: 'refused', problems: [{ message: 'planted' }] });
  });

  test('names every setting that needs a restart, and where it stands', () => {
    const { setups, write } = start('server: { address: ":1" }');
    write('server: { address: ":2", http2: false }\nadmin: { address: "127.0.0.1:9" }');

    expect(setups.reload().problems.map(formatProblem)).toEqual([
      'a.yaml:1:20: error: server.address cannot change while the gateway runs. Restart the gateway to change it, or change it back.',
      'a.yaml:1:33: error: server.http2 cannot change while the gateway runs. Restart the gateway to change it, or change it back.',
      'a.yaml:2:19: error: admin.address cannot change while the gateway runs. Restart the gateway to change it, or change it back.',
    ]);
  });

  test('names the certificate of the external service that cannot be read, and where it stands', () => {
    const { setups, write } = start('rate_limit: { average: 1 }');
    write(
      'rate_limit: { external: { enabled: true, grpc: { address: "a:1", tls: { enabled: true, ca_file: /none.pem } } } }',
    );

    expect(setups.reload().problems.map(formatProblem)).toEqual([
      expect.stringMatching(
        /^a\.yaml:1:\d+: error: rate_limit\.external\.grpc\.tls\.ca_file: \/none\.pem cannot be read \(ENOENT\)/,
      ),
    ]);
  });

  test('does not throw away the table of keys', () => {
    const { setups, write } = start('rate_limit: { average: 1 }');
    write('rate_limit: { average: 1, max_keys: 5 }');

    expect(setups.reload().problems.map(formatProblem)).toEqual([
      expect.stringMatching(
        /^a\.yaml:1:37: error: rate_limit\.max_keys cannot change .* Restart the gateway/,
      ),
    ]);
  });

  test('overrides of operators hold in the same turn, as long as the policy exists', () => {
    const first = start('rate_limit: { average: 1, period: 1h }');
    const overrides = createOverrides({
      live: () => first.setups.live(),
      policies: () => first.setups.current().policies,
    });
    overrides.set({ policy: 'default', key: '203.0.113.7', numbers: { average: 3 } });
    first.write('rate_limit: { average: 2, period: 1h }');

    first.setups.reload();
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
  const { setups, write } = start(`rate_limit: { ${limits} }`);
  const ruling = setups.current().gate.rule(facts());
  await vi.waitFor(() => expect(answer).toBeDefined());

  write(`rate_limit: { ${limits}, headers: [draft] }`);
  setups.reload();
  write(`rate_limit: { ${limits} }\nredis: { endpoints: ["127.0.0.1:1"] }`);
  expect(setups.reload().outcome).toBe('applied');
  // Longer than the old parts are kept for requests that have passed the gate.
  await new Promise((resolve) => setTimeout(resolve, 1200));
  answer?.();

  expect((await ruling).detail.reason).toBe('limits');
});

test('a first configuration that cannot be used is refused with all problems', () => {
  expect(() => start('rate_limit: { averag: 1, burst: 0 }')).toThrow(ConfigRefused);
});

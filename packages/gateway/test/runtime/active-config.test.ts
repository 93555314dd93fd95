// Reloads without sockets: what is kept, what is replaced, and what is refused.
import { createServer } from 'node:http';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { InstanceSettings } from '../../src/runtime/instance-settings.ts';
import { formatProblem, SettingError } from '../../src/config/problem.ts';
import { listenOn } from '../../src/runtime/listen.ts';
import { ConfigRefused, type ActiveConfig, type ActiveConfigParts } from '../../src/runtime/active-config.ts';
import { facts, statusOf } from '../rules/facts.ts';
import { directoryWith } from '../service/rls-files.ts';
import { SILENT, startConfig } from './started-config.ts';

function ask(active: ActiveConfig): number {
  const ruling = active.current().ruleEngine.decide(facts());
  if (ruling instanceof Promise) throw new Error('the answer has to come at once');
  return statusOf(ruling);
}

test('without tracing there is no tracer', async () => {
  const without = await startConfig('tracing: { enabled: false }');
  const traced = await startConfig('tracing: { enabled: true, endpoint: "http://127.0.0.1:1" }');

  expect(without.active.current().tracer).toBeUndefined();
  expect(traced.active.current().tracer).toBeTypeOf('function');
});

describe('a reload', () => {
  test('of the same text changes nothing', async () => {
    const { active, swaps } = await startConfig('rate_limit: { average: 1 }');
    const before = active.current();

    expect(await active.reload()).toEqual({ outcome: 'unchanged', generation: 1, problems: [] });
    expect(active.current()).toBe(before);
    expect(swaps()).toBe(0);
  });

  test('keeps the store, so what was spent stays spent', async () => {
    const { active, write } = await startConfig('rate_limit: { average: 1, period: 1h }');
    expect([ask(active), ask(active)]).toEqual([200, 429]);
    const { limiter, upstreams } = active.current();

    write('rate_limit: { average: 1, period: 1h, headers: [draft] }');

    expect(await active.reload()).toMatchObject({ outcome: 'applied', generation: 2 });
    expect(active.current().limiter).toBe(limiter);
    expect(active.current().upstreams).toBe(upstreams);
    expect(ask(active)).toBe(429);
  });

  test('a raised limit frees only the difference', async () => {
    const { active, write } = await startConfig('rate_limit: { average: 2, period: 1h }');
    expect([ask(active), ask(active), ask(active)]).toEqual([200, 200, 429]);

    write('rate_limit: { average: 3, period: 1h }');
    await active.reload();

    expect([ask(active), ask(active)]).toEqual([200, 429]);
  });

  test('a refused one changes nothing, says why, and a good one after it is applied', async () => {
    const { active, write } = await startConfig('rate_limit: { average: 1 }');
    const before = active.current();
    write('rate_limit: { averag: 1, burst: 0 }');

    const refused = await active.reload();

    expect(refused.outcome).toBe('refused');
    expect(refused.problems.map(formatProblem)).toHaveLength(2);
    expect(active.current()).toBe(before);
    expect(active.lastReload()).toMatchObject({ outcome: 'refused', generation: 1 });
    write('rate_limit: { average: 2 }');
    expect(await active.reload()).toMatchObject({ outcome: 'applied', generation: 2 });
  });

  test('a reader that breaks is a refusal like any other', async () => {
    const { active, write } = await startConfig('rate_limit: { average: 1 }');
    write('throw');

    expect(await active.reload()).toMatchObject({ outcome: 'refused', problems: [{ message: 'planted' }] });
  });

  test('a file of descriptors that breaks its reader is one, too', async () => {
    const directory = directoryWith('domain: a\ndescriptors: *nowhere');
    const { active, write } = await startConfig('rate_limit: { average: 1 }');
    write(`service: { rls: { directory: ${JSON.stringify(directory)} } }`);

    expect(await active.reload()).toMatchObject({ outcome: 'refused' });
  });

  test.each([
    ['1', '2', 'change it back to 1'],
    ['2', '1', 'use 2 or more'],
  ])(
    'names the setting that needs a restart, and where it stands: %s to %s workers',
    async (from, to, hint) => {
      const redis = 'redis: { endpoints: ["127.0.0.1:1"] }';
      const { active, write } = await startConfig(`server: { workers: ${from} }\n${redis}`);
      write(`server: { workers: ${to} }\n${redis}`);

      expect((await active.reload()).problems.map(formatProblem)).toEqual([
        `a.yaml:1:20: error: server.workers cannot change from ${from} to ${to} while the gateway runs: one process is put together differently from several. Restart the gateway to change it, or ${hint}.`,
      ]);
    },
  );

  test('names the certificate of the external service that cannot be read, and where it stands', async () => {
    const { active, write } = await startConfig('rate_limit: { average: 1 }');
    write(
      'rate_limit: { external: { enabled: true, grpc: { address: "a:1", tls: { enabled: true, ca_file: /none.pem } } } }',
    );

    expect((await active.reload()).problems.map(formatProblem)).toEqual([
      expect.stringMatching(
        /^a\.yaml:1:\d+: error: rate_limit\.external\.grpc\.tls\.ca_file: \/none\.pem does not exist/,
      ),
    ]);
  });

  test('another number of keys forgets nothing', async () => {
    const { active, write } = await startConfig('rate_limit: { average: 1, period: 1h, max_keys: 5 }');
    const { limiter } = active.current().limiter;
    expect(ask(active)).toBe(200);

    for (const [maxKeys, generation] of [
      [1, 2],
      [1000, 3],
    ]) {
      write(`rate_limit: { average: 1, period: 1h, max_keys: ${maxKeys} }`);
      expect(await active.reload()).toMatchObject({ outcome: 'applied', generation });
      expect(ask(active)).toBe(429);
    }

    expect(active.current().limiter.limiter).toBe(limiter);
    expect((await limiter.health()).nodes[0]?.detail).toBe('1 of 1000 keys');
  });

  test('overrides of operators hold in the same turn, as long as the policy exists', async () => {
    const first = await startConfig('rate_limit: { average: 1, period: 1h }');
    const control = {
      live: () => first.active.live(),
      policies: () => first.active.current().policies,
    };
    const { applied } = new InstanceSettings(control, SILENT);
    const about = { policy: 'default', key: '203.0.113.7', setAt: new Date().toISOString() };
    const setting = { kind: 'override', numbers: { average: 3 }, ...about } as const;
    applied.change({ set: [setting], removed: [] });
    first.write('rate_limit: { average: 2, period: 1h }');

    await first.active.reload();
    applied.reapply();

    expect([ask(first.active), ask(first.active), ask(first.active), ask(first.active)]).toEqual([
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
  const limits = `average: 1, period: 1h, failure_policy: passThrough, external: { enabled: true, timeout: 60s, http: { url: "http://127.0.0.1:${port}/" } }`;
  const { active, write } = await startConfig(`rate_limit: { ${limits} }`);
  const ruling = active.current().ruleEngine.decide(facts());
  await vi.waitFor(() => expect(answer).toBeDefined());

  // From here on time is ours: old parts are kept a while for requests that have passed the gate.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  write(`rate_limit: { ${limits}, headers: [draft] }`);
  await active.reload();
  write(`rate_limit: { ${limits} }\nredis: { endpoints: ["127.0.0.1:1"] }`);
  const [reloaded] = await Promise.all([active.reload(), vi.advanceTimersByTimeAsync(5000)]);
  expect(reloaded.outcome).toBe('applied');
  await vi.advanceTimersByTimeAsync(2000);
  vi.useRealTimers();
  answer?.();

  expect((await ruling).detail.reason).toBe('limits');
});

test('a configuration that somebody holds is not let go', async () => {
  const { active } = await startConfig('rate_limit: { average: 1 }');
  const { ruleEngine, hold } = active.current();
  const letGo = hold();
  const idle = vi.fn<() => void>();

  const gone = ruleEngine.idle().then(idle);
  await new Promise(setImmediate);
  expect(idle).not.toHaveBeenCalled();
  letGo();
  await gone;

  expect(idle).toHaveBeenCalledOnce();
});

test('a first configuration that cannot be used is refused with all problems', async () => {
  await expect(startConfig('rate_limit: { averag: 1, burst: 0 }')).rejects.toThrow(ConfigRefused);
});

describe('what a runtime needs beside itself', () => {
  interface Told {
    readonly prepare: ActiveConfigParts['prepare'];
    readonly events: string[];
  }

  /** Says what is asked of it; a preparation lasts until somebody lets it end. */
  function told(preparation: () => Promise<void> = async () => Promise.resolve()): Told {
    const events: string[] = [];
    const prepare: ActiveConfigParts['prepare'] = async ({ config }) => {
      const name = String(config.rate_limit.average);
      events.push(`prepare ${name}`);
      await preparation();
      return { commit: () => events.push(`commit ${name}`), abort: () => events.push(`abort ${name}`) };
    };
    return { prepare, events };
  }

  const limit = (average: number): string => `rate_limit: { average: ${average}, period: 1h }`;

  test('is made ready before the swap, and taken into use in the same turn', async () => {
    let during: number | undefined;
    const { prepare, events } = told(async () => {
      await aMoment();
      during = started.active.current().config.rate_limit.average;
    });
    const started = await startConfig(limit(1), prepare);
    started.write(limit(2));

    expect(await started.active.reload()).toMatchObject({ outcome: 'applied', generation: 2 });
    expect(during).toBe(1);
    expect(events).toEqual(['prepare 2', 'commit 2']);
    expect(started.swaps()).toBe(1);
  });

  test('keeps everything as it is if it cannot be made ready, and says why and where', async () => {
    const { active, write, swaps } = await startConfig(limit(1), async () => {
      throw new SettingError(['rate_limit', 'average'], 'planted', 'Try again.');
    });
    const before = active.current();
    write(`${limit(2)}\nredis: { endpoints: ["127.0.0.1:1"] }`);

    const refused = await active.reload();

    expect(refused.problems.map(formatProblem)).toEqual(['a.yaml:1:24: error: planted. Try again.']);
    expect(refused).toMatchObject({ outcome: 'refused', generation: 1 });
    expect(active.current()).toBe(before);
    expect(swaps()).toBe(0);
  });

  test('is not asked for where nothing changes', async () => {
    const { prepare, events } = told();
    const { active } = await startConfig(limit(1), prepare);

    await active.reload();

    expect(events).toEqual([]);
  });

  test('reloads do not overlap, a change during one is not lost, and who waits shares', async () => {
    const gates: (() => void)[] = [];
    const { prepare, events } = told(async () => new Promise((resolve) => gates.push(resolve)));
    const { active, write } = await startConfig(limit(1), prepare);
    write(limit(2));
    const first = active.reload();
    await vi.waitFor(() => expect(gates).toHaveLength(1));

    write(limit(3));
    const [second, third] = [active.reload(), active.reload()];
    write(limit(4));
    await aMoment();
    expect(events).toEqual(['prepare 2']);
    gates[0]?.();
    await vi.waitFor(() => expect(gates).toHaveLength(2));
    gates[1]?.();

    expect((await first).generation).toBe(2);
    expect(await Promise.all([second, third])).toMatchObject([{ generation: 3 }, { generation: 3 }]);
    expect(events).toEqual(['prepare 2', 'commit 2', 'prepare 4', 'commit 4']);
    expect(active.live().config.rate_limit.average).toBe(4);
  });

  test('in two steps: what is prepared is taken into use by the next reload of the same text, and only then', async () => {
    const { prepare, events } = told();
    const { active, write } = await startConfig(limit(1), prepare);
    write(limit(2));

    expect(await active.prepare()).toEqual([]);
    expect(active.live().generation).toBe(1);
    expect(await active.reload()).toMatchObject({ outcome: 'applied', generation: 2 });
    expect(events).toEqual(['prepare 2', 'commit 2']);
  });

  test('in two steps: what is not wanted any more is let go', async () => {
    const { prepare, events } = told();
    const { active, write } = await startConfig(limit(1), prepare);
    write(limit(2));
    await active.prepare();
    await active.abort();
    write(limit(3));
    await active.prepare();
    write(limit(4));
    await active.reload();

    expect(events).toEqual(['prepare 2', 'abort 2', 'prepare 3', 'abort 3', 'prepare 4', 'commit 4']);
    expect(active.live()).toMatchObject({ generation: 2, config: { rate_limit: { average: 4 } } });
  });

  test('in two steps: a configuration that cannot be used says so in the first', async () => {
    const { active, write } = await startConfig(limit(1));
    write('rate_limit: { averag: 1, burst: 0 }');

    expect(await active.prepare()).toHaveLength(2);
    expect(active.lastReload()).toBeUndefined();
  });

  test('a gateway that ends takes nothing new into use, also what was prepared', async () => {
    const { prepare, events } = told();
    const { active, write } = await startConfig(limit(1), prepare);
    write(limit(2));
    await active.prepare();

    await active.stop();

    expect(await active.reload()).toMatchObject({
      outcome: 'refused',
      problems: [{ message: 'the gateway is shutting down' }],
    });
    expect(events).toEqual(['prepare 2', 'abort 2']);
  });
});

test('the tracer is kept while its settings are, and another one takes its place when they change', async () => {
  const tracing = (name: string): string =>
    `tracing: { enabled: true, endpoint: "http://127.0.0.1:1", service_name: ${name} }`;
  const { active, write } = await startConfig(tracing('one'));
  const first = active.current().tracing;

  write(`${tracing('one')}\nrate_limit: { average: 1 }`);
  await active.reload();
  const kept = active.current().tracing;
  write(tracing('two'));
  await active.reload();
  const other = active.current().tracing;
  write('rate_limit: { average: 1 }');
  await active.reload();

  expect(kept).toBe(first);
  expect(other).not.toBe(first);
  expect(active.current().tracer).toBeUndefined();
});

test('where the gateway listens is known to what must not send requests there', async () => {
  const { active, write } = await startConfig('server: { address: ":1" }');
  const { upstreams } = active.current();

  write('server: { address: ":1", http2: false }');
  await active.reload();
  expect(active.current().upstreams).toBe(upstreams);
  write('server: { address: ":2" }');
  await active.reload();
  const moved = active.current().upstreams;
  write('server: { address: ":2" }\nservice: { address: "127.0.0.1:3" }');
  await active.reload();

  expect(moved).not.toBe(upstreams);
  expect(active.current().upstreams).not.toBe(moved);
});

/** Whatever could happen at once has happened. */
async function aMoment(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

import { get, type IncomingMessage } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { liveSample, type LiveSample } from '../../src/admin/live/live-sample.ts';
import { finished } from '../telemetry/finished.ts';
import { runAdmin, type Running } from './running-admin.ts';

let running: Running;

beforeEach(async () => {
  running = await runAdmin();
});

afterEach(async () => {
  await running.stop();
});

interface Watching {
  readonly response: IncomingMessage;
  /** The data of every event of a name so far. */
  readonly events: (name: string) => readonly unknown[];
  readonly ended: Promise<void>;
}

async function watch(): Promise<Watching> {
  return new Promise((resolve, reject) => {
    const asked = get({ port: running.admin.address.port, path: '/v1/live', agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (text += chunk));
      const ended = new Promise<void>((end) => {
        response.once('close', end);
      });
      const events = (name: string): readonly unknown[] =>
        [...text.matchAll(/event: (\w+)\ndata: (.*)\n\n/g)]
          .filter(([, event]) => event === name)
          .map(([, , data = '']): unknown => JSON.parse(data));
      resolve({ response, events, ended });
    });
    asked.on('error', reject);
  });
}

describe('who watches', () => {
  test('hears every second what the gateway has done', async () => {
    const { traffic } = running.metrics;
    const { response, events } = await watch();
    traffic.started();
    traffic.finished(finished({ outcome: 'refused', rule: 'login', reason: 'limits' }));
    traffic.started();
    traffic.finished(finished({ outcome: 'forwarded', rule: 'shop', shadowDenied: true }));
    await running.limiter.check(running.policy('api').for('ann'));

    await expect
      .poll(() => events('sample').at(-1))
      .toMatchObject({
        version: '1.2.3',
        requests: { allowed: 1, denied: 1, failed: 0, shadowDenied: 1 },
        policies: [{ policy: 'api', allowed: 1, denied: 0 }],
        decisions: 1,
        store: { status: 'up' },
        backends: [{ origin: 'http://10.0.0.1:3000', healthy: false }],
      });
    const last = liveSample.parse(events('sample').at(-1));
    expect(last.rules.find(({ rule }) => rule === 'login')).toMatchObject({ denied: 1, allowed: 0 });
    expect(sumOf(last.latency)).toBe(2);
    expect(sumOf(last.decisionLatency)).toBe(1);
    expect(response.headers['content-type']).toBe('text/event-stream');
    response.destroy();
  });

  test('and comes later, gets what the others have seen', async () => {
    const first = await watch();
    await expect.poll(() => first.events('sample').length).toBeGreaterThan(0);

    const second = await watch();

    await expect.poll(() => second.events('history')[0]).toHaveLength(1);
    first.response.destroy();
    second.response.destroy();
  });

  test('is one of thirty-two at most', async () => {
    const watching = await Promise.all(Array.from({ length: 32 }, watch));

    const { status, json } = await running.fetch('/v1/live');

    expect([status, json]).toMatchObject([503, { code: 'TOO_MANY_WATCHERS' }]);
    for (const { response } of watching) response.destroy();
  });

  test('does not keep the admin server from ending', async () => {
    const { ended } = await watch();

    await running.stop();

    await expect(ended).resolves.toBeUndefined();
  });
});

test('nothing is read for nobody', async () => {
  const health = running.limiter.health.bind(running.limiter);
  let asked = 0;
  running.limiter.health = async () => {
    asked += 1;
    return health();
  };
  const { response, events } = await watch();
  await expect.poll(() => events('sample').length).toBeGreaterThan(1);

  response.destroy();

  await expect.poll(async () => watchers()).toBe(0);
  const before = asked;
  await expect.poll(() => performance.now(), { interval: 300 }).toBeGreaterThan(performance.now() + 2500);
  expect(asked).toBe(before);
});

async function watchers(): Promise<number> {
  return Promise.resolve(running.admin.watchers());
}

function sumOf({ counts }: LiveSample['latency']): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

describe('the dashboard', () => {
  test('is a page whose files come from here only', async () => {
    const { status, text, headers } = await running.fetch('/');

    expect(status).toBe(200);
    expect(headers['content-type']).toBe('text/html; charset=utf-8');
    const places = [...text.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, place = '']) => place);
    expect(places.toSorted()).toEqual(['/ui/dashboard.css', '/ui/dashboard.js', '/ui/icon.svg']);
    expect(text).not.toMatch(/<script[^>]*>[^<]|<style|style=|\son\w+=/);
  });

  test('has less than 120 kB on the wire', async () => {
    const files = ['/', '/ui/dashboard.js', '/ui/dashboard.css', '/ui/icon.svg'];
    const texts = await Promise.all(files.map(async (file) => (await running.fetch(file)).text));

    const bytes = texts.reduce((sum, text) => sum + gzipSync(text).length, 0);

    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThan(120_000);
  });

  test('speaks with nobody but the gateway', async () => {
    const { text } = await running.fetch('/ui/dashboard.js');
    const addresses = [...text.matchAll(/https?:\/\/[\w.]+/g)].map(([address]) => address);

    // Names of namespaces, which nobody asks for anything.
    expect(addresses.filter((address) => address !== 'http://www.w3.org')).toEqual([]);
  });

  test.each(['/ui/nope.js', '/ui/..%2F..%2Fpackage.json', '/ui/sources.sha256', '/ui/'])(
    'has no file %s',
    async (path) => {
      expect((await running.fetch(path)).status).toBe(404);
    },
  );
});

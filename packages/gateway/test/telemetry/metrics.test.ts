import { AggregatorRegistry } from 'prom-client';
import { createLimiter, tokenBucket } from 'spillgate';
import { describe, expect, test } from 'vitest';
import { DURATION_BUCKETS_SECONDS, LABELS, MAX_LABELS } from '../../src/telemetry/metric.ts';
import { METRICS } from '../../src/telemetry/metric-table.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import { finished } from './finished.ts';

function metrics(): Metrics {
  return createMetrics({ version: '1.2.3', processMetrics: false });
}

describe('requests', () => {
  test('are counted by outcome, status class, protocol and rule', async () => {
    const { traffic, text } = metrics();
    traffic.finished(finished());
    traffic.finished(finished({ status: 204 }));
    traffic.finished(finished({ outcome: 'refused', status: 429 }));
    traffic.finished(
      finished({ outcome: 'aborted', status: undefined, protocol: 'HTTP/2.0', rule: undefined }),
    );
    traffic.finished(finished({ outcome: 'forwarded', status: 101, protocol: 'websocket' }));

    expect(await linesOf(text, METRICS.requests.name)).toEqual([
      '{outcome="forwarded",status="2xx",protocol="HTTP/1.1",rule="items"} 2',
      '{outcome="refused",status="4xx",protocol="HTTP/1.1",rule="items"} 1',
      '{outcome="aborted",status="none",protocol="HTTP/2.0",rule=""} 1',
      '{outcome="forwarded",status="1xx",protocol="websocket",rule="items"} 1',
    ]);
  });

  test.each([
    [99, 'none'],
    [100, '1xx'],
    [199, '1xx'],
    [200, '2xx'],
    [399, '3xx'],
    [599, '5xx'],
    [600, 'none'],
  ])('the status %i is of class %s', async (status, label) => {
    const { traffic, text } = metrics();

    traffic.finished(finished({ status }));

    expect(await linesOf(text, METRICS.requests.name)).toEqual([
      expect.stringContaining(`status="${label}"`),
    ]);
  });

  test('what the gateway answered itself is counted by reason', async () => {
    const { traffic, text } = metrics();
    traffic.finished(finished({ outcome: 'failed', status: 504, reason: 'UPSTREAM_TIMEOUT' }));
    traffic.finished(finished({ outcome: 'failed', status: 504, reason: 'UPSTREAM_TIMEOUT' }));

    expect(await linesOf(text, METRICS.ownAnswers.name)).toEqual(['{reason="UPSTREAM_TIMEOUT"} 2']);
  });

  test('odd ways of naming a client are counted by what was odd', async () => {
    const { traffic, text } = metrics();
    traffic.count('addressOddities', 'tooFewHops');
    traffic.count('addressOddities', 'tooFewHops');

    expect(await linesOf(text, METRICS.addressOddities.name)).toEqual([
      '{oddity="untrustedHeader"} 0',
      '{oddity="tooFewHops"} 2',
      '{oddity="junk"} 0',
      '{oddity="tooManyEntries"} 0',
    ]);
  });

  test('durations fall into the bucket whose bound they do not exceed', async () => {
    const { traffic, text } = metrics();
    traffic.finished(finished({ durationMs: 10, upstreamMs: undefined }));
    traffic.finished(finished({ durationMs: 10.001, upstreamMs: undefined }));
    traffic.finished(finished({ durationMs: 60_000, upstreamMs: undefined }));

    const lines = (await linesOf(text, `${METRICS.requestDuration.name}_bucket`)).filter((line) =>
      line.includes('forwarded'),
    );

    expect(lines).toHaveLength(DURATION_BUCKETS_SECONDS.length + 1);
    expect(lines).toEqual(
      expect.arrayContaining([
        '{le="0.005",outcome="forwarded"} 0',
        '{le="0.01",outcome="forwarded"} 1',
        '{le="0.025",outcome="forwarded"} 2',
        '{le="30",outcome="forwarded"} 2',
        '{le="+Inf",outcome="forwarded"} 3',
      ]),
    );
    expect(await linesOf(text, `${METRICS.requestDuration.name}_count`)).toContain('{outcome="forwarded"} 3');
    expect(await linesOf(text, `${METRICS.requestDuration.name}_sum`)).toContain(
      '{outcome="forwarded"} 60.020001',
    );
    expect(await linesOf(text, `${METRICS.upstreamDuration.name}_count`)).toEqual([' 0']);
  });

  test('a tunnel has no duration: it would be the length of a conversation', async () => {
    const { traffic, text } = metrics();

    traffic.finished(finished({ protocol: 'websocket', status: 101 }));

    expect(await linesOf(text, `${METRICS.requestDuration.name}_count`)).toContain('{outcome="forwarded"} 0');
  });

  test('bytes, connections, tunnels and requests under way are added up', async () => {
    const { traffic, text } = metrics();
    traffic.started();
    traffic.started();
    traffic.finished(finished({ bytesReceived: 5, bytesSent: 7 }));
    traffic.connectionOpened();
    traffic.connectionOpened();
    traffic.connectionClosed();
    traffic.tunnelOpened();
    traffic.tunnelOpened();
    traffic.tunnelClosed();

    const shown = await text();

    expect(shown).toContain(`${METRICS.receivedBytes.name} 5`);
    expect(shown).toContain(`${METRICS.sentBytes.name} 7`);
    expect(shown).toContain(`${METRICS.requestsInFlight.name} 1`);
    expect(shown).toContain(`${METRICS.connections.name} 1`);
    expect(shown).toContain(`${METRICS.connectionsOpened.name} 2`);
    expect(shown).toContain(`${METRICS.tunnels.name} 1`);
    expect(shown).toContain(`${METRICS.tunnelsOpened.name} 2`);
    expect(traffic.summary()).toMatchObject({
      requests: { forwarded: 1, refused: 0 },
      rules: [{ rule: 'items', requests: { forwarded: 1 } }],
      requestsInFlight: 1,
      connections: 1,
      tunnels: 1,
      receivedBytes: 5,
      sentBytes: 7,
    });
  });
});

describe('labels', () => {
  test('nothing that a client sent becomes one', async () => {
    const { traffic, text } = metrics();

    traffic.finished(
      finished({
        id: 'SENT',
        host: 'SENT',
        path: '/SENT',
        method: 'SENT',
        clientAddress: 'SENT',
        traceId: 'SENT',
        upstream: 'SENT',
      }),
    );

    expect(await text()).not.toContain('SENT');
  });

  test('the names of rules are bounded, whatever configurations come', async () => {
    const { traffic, text } = metrics();

    for (let at = 0; at < MAX_LABELS.rule + 50; at += 1) traffic.finished(finished({ rule: `rule-${at}` }));

    const lines = await linesOf(text, METRICS.requests.name);
    expect(lines).toHaveLength(MAX_LABELS.rule + 1);
    expect(lines.at(-1)).toMatch(/rule="other"\} 50$/);
  });

  test('each one that a metric has is described', () => {
    for (const { labels } of Object.values(METRICS)) {
      for (const label of labels) expect(LABELS).toHaveProperty(label);
    }
  });
});

describe('the gateway', () => {
  const gateway = {
    phase: () => 'ready' as const,
    live: () => ({ generation: 3, loadedAt: new Date(1_700_000_000_000) }),
    lastReload: () => ({ outcome: 'refused' }),
    limitsService: () => undefined,
    backends: () => [
      { origin: 'http://a', healthy: true, inFlight: 2, lastError: undefined },
      { origin: 'http://b', healthy: false, inFlight: 0, lastError: 'gone' },
    ],
  };

  test('is read when somebody asks', async () => {
    const { observe, text, traffic } = metrics();
    observe(gateway);
    for (const result of ['applied', 'refused', 'refused']) traffic.count('reloads', result);

    const shown = await text();

    expect(shown).toContain(`${METRICS.ready.name} 1`);
    expect(shown).toContain(`${METRICS.configGeneration.name} 3`);
    expect(shown).toContain(`${METRICS.configLoaded.name} 1700000000`);
    expect(shown).toContain(`${METRICS.lastReloadSuccessful.name} 0`);
    expect(shown).toContain(`${METRICS.build.name}{version="1.2.3"} 1`);
    expect(await linesOf(text, METRICS.upstreamUp.name)).toEqual([
      '{upstream="http://a"} 1',
      '{upstream="http://b"} 0',
    ]);
    expect(await linesOf(text, METRICS.upstreamInFlight.name)).toEqual([
      '{upstream="http://a"} 2',
      '{upstream="http://b"} 0',
    ]);
    expect(await linesOf(text, METRICS.reloads.name)).toEqual([
      '{result="applied"} 1',
      '{result="unchanged"} 0',
      '{result="refused"} 2',
    ]);
  });

  test('asking twice does not count twice', async () => {
    const { traffic, text } = metrics();
    traffic.finished(finished());

    await text();

    expect(await linesOf(text, METRICS.requests.name)).toEqual([expect.stringMatching(/ 1$/)]);
  });

  test('the limiter has its own metrics beside', async () => {
    const { collect, text } = metrics();
    const limiter = createLimiter();
    collect(limiter);

    await limiter.check(tokenBucket({ name: 'api', average: 1, period: '1h' }).for('SENT'));

    expect(await text()).toContain(
      'spillgate_decisions_total{limiter="default",policy="api",outcome="allowed"',
    );
    expect(await text()).not.toContain('SENT');
  });

  test('the process has its own metrics beside', async () => {
    expect(await createMetrics({ version: '1' }).text()).toContain('process_resident_memory_bytes');
  });
});

test('the metrics of workers can be put together', async () => {
  const workers = [metrics(), metrics()];
  for (const [at, { traffic, observe }] of workers.entries()) {
    traffic.finished(finished({ durationMs: 20 }));
    traffic.count('reloads', 'applied');
    observe({
      phase: () => 'ready',
      live: () => ({ generation: at + 1, loadedAt: new Date(0) }),
      lastReload: () => undefined,
      limitsService: () => undefined,
      backends: () => [{ origin: 'http://a', healthy: at === 0, inFlight: 1, lastError: undefined }],
    });
  }

  const all = await Promise.all(workers.map(({ registry }) => registry.getMetricsAsJSON()));
  // As between processes.
  const sent: unknown = JSON.parse(JSON.stringify(all));
  const shown = await AggregatorRegistry.aggregate(sent as object[]).metrics();

  expect(shown).toContain(
    `${METRICS.requests.name}{outcome="forwarded",status="2xx",protocol="HTTP/1.1",rule="items"} 2`,
  );
  expect(shown).toContain(`${METRICS.requestDuration.name}_bucket{le="0.025",outcome="forwarded"} 2`);
  expect(shown).toContain(`${METRICS.requestDuration.name}_count{outcome="forwarded"} 2`);
  expect(shown).toContain(`${METRICS.upstreamUp.name}{upstream="http://a"} 0`);
  expect(shown).toContain(`${METRICS.upstreamInFlight.name}{upstream="http://a"} 2`);
  expect(shown).toContain(`${METRICS.configGeneration.name} 2`);
  expect(shown).toContain(`${METRICS.reloads.name}{result="applied"} 1`);
});

/** The series of a metric without its name. */
async function linesOf(text: () => Promise<string>, name: string): Promise<readonly string[]> {
  const lines = (await text()).split('\n');
  return lines
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .map((line) => line.slice(name.length));
}

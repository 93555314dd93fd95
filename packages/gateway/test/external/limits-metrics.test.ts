import { expect, test } from 'vitest';
import { limitsMetrics } from '../../src/external/limits-source.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { fails, says, scriptedService } from './scripted-service.ts';
import { PLAN } from './services.ts';
import { question, testSource } from './sources.ts';

test('metrics say which step answered, why, and what the service did', async () => {
  const metrics = createMetrics({ version: '1.2.3', processMetrics: false });
  const service = scriptedService(async ({ key }) =>
    key === 'bad' ? fails('unreachable') : says({ ...PLAN, backend_url: 'http://b' }, 'max-age=10'),
  );
  const { source } = testSource(
    { external: { http: { url: 'http://127.0.0.1:1/' }, circuit_breaker: { threshold: 1 } } },
    { service, observer: limitsMetrics(metrics.traffic), now: () => 0 },
  );
  metrics.observe({
    phase: () => 'ready',
    live: () => ({ generation: 1, loadedAt: new Date(0) }),
    lastReload: () => undefined,
    backends: () => [],
    limitsService: () => source.snapshot(),
  });

  await source.limitsFor(question('good'));
  for (let at = 0; at < 3; at += 1) await source.limitsFor(question('good'));
  await source.limitsFor(question('bad'));
  await source.limitsFor(question('bad', { path: '/other' }));

  await metrics.text();
  const text = await metrics.text();
  const lines = text
    .split('\n')
    .filter((line) => line.startsWith('spillgate_gateway_external_') && !/_bucket|_sum/.test(line));
  expect(lines.toSorted()).toEqual(
    [
      'spillgate_gateway_external_breaker_changes_total{scope="key",state="open"} 1',
      'spillgate_gateway_external_breakers 1',
      'spillgate_gateway_external_cached_answers 3',
      'spillgate_gateway_external_call_duration_seconds_count 2',
      'spillgate_gateway_external_calls_in_flight 0',
      'spillgate_gateway_external_calls_queued 0',
      'spillgate_gateway_external_calls_total{outcome="answered"} 1',
      'spillgate_gateway_external_calls_total{outcome="unreachable"} 1',
      'spillgate_gateway_external_limits_total{step="cache",reason="local"} 3',
      'spillgate_gateway_external_limits_total{step="service",reason="answered"} 1',
      'spillgate_gateway_external_limits_total{step="static",reason="breakerOpen"} 1',
      'spillgate_gateway_external_limits_total{step="static",reason="unreachable"} 1',
      'spillgate_gateway_external_open_breakers 1',
      'spillgate_gateway_external_refreshes_total 0',
      'spillgate_gateway_external_refused_total{field="backendUrl"} 1',
      'spillgate_gateway_external_service_suspended 0',
    ].toSorted(),
  );
  await source.close();
});

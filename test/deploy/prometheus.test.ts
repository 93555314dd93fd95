// The rules and the dashboard on a real Prometheus that scrapes a real gateway.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { GatewayProcess } from '../../packages/gateway/test/e2e/gateway-process.ts';
import { mustRun, run } from '../../scripts/command.ts';
import { eventually } from '../redis/polling.ts';
import { reserve, type Reservation } from '../redis/reservation.ts';

const TOKEN = 'a-token-for-this-test';
const folder = mkdtempSync(join(tmpdir(), 'spillgate-prometheus-'));
let gateway: GatewayProcess;
let prometheus: ChildProcess;
let reserved: Reservation;
let api = '';

beforeAll(async () => {
  gateway = await GatewayProcess.start(
    'server: { address: "127.0.0.1:0" }\n' +
      `admin: { address: "127.0.0.1:0", token: "${TOKEN}" }\n` +
      'backend: { url: "http://127.0.0.1:9" }\n' +
      'rate_limit: { average: 1, period: 1h, burst: 2 }\n',
  );
  writeFileSync(join(folder, 'token'), TOKEN);
  writeFileSync(
    join(folder, 'prometheus.yml'),
    readFileSync('deploy/prometheus/prometheus.yml', 'utf8')
      .replace('scrape_interval: 5s', 'scrape_interval: 200ms')
      .replace('evaluation_interval: 15s', 'evaluation_interval: 1s')
      .replace('/run/secrets/admin-token', join(folder, 'token'))
      .replace('alerts.yml', resolve('deploy/prometheus/alerts.yml'))
      .replace('gateway:9090', `127.0.0.1:${gateway.adminPort}`),
  );
  reserved = await reserve();
  api = `http://127.0.0.1:${reserved.port}/api/v1`;
  prometheus = spawn('prometheus', [
    `--config.file=${join(folder, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(folder, 'data')}`,
    `--web.listen-address=127.0.0.1:${reserved.port}`,
  ]);
});

afterAll(async () => {
  prometheus.kill();
  await once(prometheus, 'exit');
  reserved.release();
  await gateway.remove();
  rmSync(folder, { recursive: true, force: true });
});

test('promtool accepts the configuration and the rules', async () => {
  await mustRun('promtool', ['check', 'config', '--syntax-only', 'deploy/prometheus/prometheus.yml']);

  const { output, exitCode } = await run('promtool', ['check', 'rules', 'deploy/prometheus/alerts.yml']);

  expect(output).toContain('12 rules found');
  expect(exitCode).toBe(0);
});

test('every alert fires on what it is for, and none on a healthy gateway', async () => {
  const { output, exitCode } = await run('promtool', ['test', 'rules', 'deploy/prometheus/alerts.test.yml']);

  expect(output).toContain('SUCCESS');
  expect(exitCode).toBe(0);
});

test('Prometheus scrapes a gateway, evaluates every rule, and answers every query of the dashboard', async () => {
  for (let sent = 0; sent < 4; sent++) await fetch(gateway.url);
  await eventually(
    'the requests are scraped',
    async () => (await query('spillgate_gateway_requests_total{outcome="refused"} == 2')).length === 1,
  );
  await eventually('every rule is evaluated', async () =>
    (await rules()).every(({ lastEvaluation }) => !lastEvaluation.startsWith('0001')),
  );

  expect((await rules()).map(({ name, health, lastError }) => [name, health, lastError ?? ''])).toEqual(
    (await rules()).map(({ name }) => [name, 'ok', '']),
  );
  for (const expression of dashboardQueries()) await expect(query(expression)).resolves.toBeDefined();
});

interface EvaluatedRule {
  readonly name: string;
  readonly health: string;
  readonly lastError?: string;
  readonly lastEvaluation: string;
}

async function rules(): Promise<readonly EvaluatedRule[]> {
  const { groups } = await answer<{ groups: readonly { rules: readonly EvaluatedRule[] }[] }>(`${api}/rules`);
  return groups.flatMap((group) => group.rules);
}

async function query(expression: string): Promise<readonly unknown[]> {
  const { result } = await answer<{ result: readonly unknown[] }>(
    `${api}/query?query=${encodeURIComponent(expression)}`,
  );
  return result;
}

async function answer<Data>(url: string): Promise<Data> {
  const response = await fetch(url);
  const body = (await response.json()) as { status: string; error?: string; data: Data };
  if (body.status !== 'success') throw new Error(`${url}: ${body.error}`);
  return body.data;
}

/** As Grafana sends them: with its variables replaced. */
function dashboardQueries(): readonly string[] {
  const dashboard = JSON.parse(readFileSync('deploy/grafana/dashboards/spillgate.json', 'utf8')) as {
    panels: readonly { targets?: readonly { expr: string }[] }[];
  };
  return dashboard.panels
    .flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
    .map((expr) =>
      expr.replaceAll('$job', '.*').replaceAll('$instance', '.*').replaceAll('$__rate_interval', '1m'),
    );
}

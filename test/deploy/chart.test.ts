import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { run } from '../../scripts/command.ts';
import { helmProgram } from './helm.ts';

const CHART = 'deploy/helm/spillgate';
const PROGRAM = 'packages/gateway/dist/main.js';
const folder = mkdtempSync(join(tmpdir(), 'spillgate-chart-'));
let helm = '';

beforeAll(async () => {
  helm = await helmProgram();
}, 900_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const EVERYTHING = [
  'autoscaling.enabled=true',
  'serviceMonitor.enabled=true',
  'env[0].name=SPILLGATE_REDIS_PASSWORD',
  'env[0].value=secret',
  'podLabels.team=edge',
  'podAnnotations.note=yes',
];

test('helm lint finds nothing', async () => {
  const { output, exitCode } = await run(helm, ['lint', '--strict', CHART]);

  expect(output).toContain('1 chart(s) linted, 0 chart(s) failed');
  expect(output).not.toContain('[WARNING]');
  expect(exitCode).toBe(0);
});

describe('rendered', () => {
  test('with its defaults, it has a gateway that probes can reach and that cannot be evicted at once', async () => {
    const objects = await rendered([]);

    expect(kindsOf(objects)).toEqual([
      'ConfigMap',
      'Deployment',
      'NetworkPolicy',
      'PodDisruptionBudget',
      'Secret',
      'Service',
      'Service',
      'ServiceAccount',
    ]);
  });

  test('with everything switched on, it scales and is scraped', async () => {
    const objects = await rendered(EVERYTHING);

    expect(kindsOf(objects)).toEqual(expect.arrayContaining(['HorizontalPodAutoscaler', 'ServiceMonitor']));
    // A fixed number would fight with the autoscaler.
    expect(at(objects, 'Deployment', 'spec')).not.toHaveProperty('replicas');
  });

  test.each([{ set: [] as string[] }, { set: EVERYTHING }])(
    'its configuration is one that the gateway accepts ($set.length)',
    async ({ set }) => {
      const file = join(folder, 'spillgate.yaml');
      const config = at(await rendered(set), 'ConfigMap', 'data')['spillgate.yaml'];
      writeFileSync(file, String(config));

      const { output, exitCode } = await run(process.execPath, [PROGRAM, 'check', file], {
        environment: { SPILLGATE_ADMIN_TOKEN: 'a-token-of-the-chart' },
      });

      expect(output).toContain('valid');
      expect(exitCode).toBe(0);
    },
  );

  test('the pod waits longer than the gateway drains', async () => {
    const objects = await rendered([]);
    const pod = record(record(at(objects, 'Deployment', 'spec')['template'])['spec']);

    expect(pod['terminationGracePeriodSeconds']).toBeGreaterThan(35);
  });

  test('several pods that would each count for themselves are refused', async () => {
    const { output, exitCode } = await template(['config.redis=null']);

    expect(output).toContain('every pod would count for itself');
    expect(exitCode).not.toBe(0);
  });
});

type Rendered = Readonly<Record<string, unknown>>;

async function rendered(set: readonly string[]): Promise<readonly Rendered[]> {
  const { output, exitCode } = await template(set);
  if (exitCode !== 0) throw new Error(output);
  return parseAllDocuments(output)
    .map((document) => document.toJSON() as unknown)
    .filter((value) => value !== null)
    .map(record);
}

/** A helm that was built from its source takes the cluster for an old one unless it is told. */
async function template(set: readonly string[]): ReturnType<typeof run> {
  const values = set.flatMap((one) => ['--set', one]);
  return run(helm, ['template', 'edge', CHART, '--kube-version', '1.31.0', ...values]);
}

function kindsOf(objects: readonly Rendered[]): readonly unknown[] {
  return objects.map(({ kind }) => String(kind)).toSorted((a, b) => (a < b ? -1 : 1));
}

function at(objects: readonly Rendered[], kind: string, field: string): Rendered {
  return record(objects.find((object) => object['kind'] === kind)?.[field]);
}

function record(value: unknown): Rendered {
  if (typeof value !== 'object' || value === null) throw new Error(`${String(value)} is not an object`);
  return value as Rendered;
}

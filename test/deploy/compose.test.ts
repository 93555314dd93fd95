import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { run } from '../../scripts/command.ts';

interface Compose {
  readonly services: Readonly<
    Record<
      string,
      { readonly volumes?: readonly string[]; readonly build?: { context: string; dockerfile: string } }
    >
  >;
  readonly volumes: Readonly<Record<string, unknown>>;
}

const compose = parse(readFileSync('deploy/compose.yaml', 'utf8')) as Compose;

test('every file and volume that compose.yaml names is there', () => {
  const sources = Object.values(compose.services).flatMap(({ volumes = [] }) =>
    volumes.map((volume) => volume.split(':')[0] ?? ''),
  );
  const missing = sources.filter((source) =>
    source.startsWith('./') ? !existsSync(join('deploy', source)) : !(source in compose.volumes),
  );

  expect(missing).toEqual([]);
  expect(sources).not.toHaveLength(0);
  for (const { build } of Object.values(compose.services)) {
    if (build !== undefined) expect(existsSync(join('deploy', build.context, build.dockerfile))).toBe(true);
  }
});

test('its gateway accepts its configuration', async () => {
  const { output, exitCode } = await run(
    process.execPath,
    ['packages/gateway/dist/main.js', 'check', 'deploy/spillgate.yaml'],
    { environment: { SPILLGATE_ADMIN_TOKEN: 'a-token-of-compose' } },
  );

  expect(output).toContain('valid');
  expect(exitCode).toBe(0);
});

test('the configuration, Prometheus and Grafana call the services by their names', () => {
  const hosts = [
    'deploy/spillgate.yaml',
    'deploy/prometheus/prometheus.yml',
    'deploy/grafana/provisioning/datasources/prometheus.yml',
  ].flatMap((file) => readFileSync(file, 'utf8').match(/(?<=[/'"])[a-z]+(?=:\d+)/g) ?? []);

  expect(hosts.toSorted()).toEqual(['gateway', 'prometheus', 'redis', 'service']);
  expect(Object.keys(compose.services)).toEqual(expect.arrayContaining(hosts));
});

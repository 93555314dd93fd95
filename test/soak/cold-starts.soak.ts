// Many cold starts in front of healthy servers: not one admission above the policy.
// SPILLGATE_STARTS: how many per line of the table, 100 if it is not set. SPILLGATE_DEADLINE: rate_limit.deadline, 50
// ms if it is not set; on a machine that is busy with something else, decisions take longer than that.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  ADMITTED_AT_MOST,
  coldStart,
  type FirstRequests,
} from '../../packages/gateway/test/e2e/cold-starts.ts';
import { startBackend, type Backend } from '../../packages/gateway/test/e2e/traffic.ts';
import { TOPOLOGIES, type StartedTopology } from '../redis/gateway-topologies.ts';

const STARTS = Number(process.env['SPILLGATE_STARTS'] ?? 100);
const DEADLINE = process.env['SPILLGATE_DEADLINE'] ?? '50ms';
const ONE_START_MS = 60_000;

let backend: Backend;
const rows: string[] = [
  'topology | failure policy | workers | starts | most admitted | above the policy | why',
];

beforeAll(async () => {
  backend = await startBackend();
});

afterAll(async () => {
  await backend.close();
  process.stdout.write(`\n${rows.join('\n')}\n`);
});

describe.each(Object.entries(TOPOLOGIES))('%s', (name, open) => {
  let topology: StartedTopology;

  beforeAll(async () => {
    topology = await open();
  });

  afterAll(async () => topology.stop());

  test.each([
    ['passThrough', 1],
    ['passThrough', 2],
    ['inMemoryFallback', 1],
    ['inMemoryFallback', 2],
  ] as const)(
    '%s, workers: %i',
    async (failurePolicy, workers) => {
      const times = { limits: `, deadline: ${DEADLINE}`, redis: `, read_timeout: ${DEADLINE}` };
      const results: FirstRequests[] = [];
      for (let at = 0; at < STARTS; at += 1) {
        results.push(await coldStart({ topology, backend, failurePolicy, workers, ...times }));
      }

      const above = results.filter(({ admitted }) => admitted > ADMITTED_AT_MOST).length;
      const most = Math.max(...results.map(({ admitted }) => admitted));
      const why = [...new Set(results.flatMap(({ failures }) => failures))].join(' ');
      rows.push([name, failurePolicy, workers, STARTS, most, above, why].join(' | '));
      expect(above).toBe(0);
    },
    STARTS * ONE_START_MS,
  );
});

// Many cold starts in front of healthy servers: not one admission above the policy.
// SPILLGATE_STARTS: how many per line of the table, 100 if it is not set. SPILLGATE_CONTINUE=1: those of an earlier run
// that was ended count. SPILLGATE_DEADLINE: rate_limit.deadline, 50 ms if it is not set; on a machine that is busy with
// something else, decisions take longer than that.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ADMITTED_AT_MOST, coldStart } from '../../packages/gateway/test/e2e/cold-starts.ts';
import { startBackend, type Backend } from '../../packages/gateway/test/e2e/traffic.ts';
import { TOPOLOGIES, type StartedTopology } from '../redis/gateway-topologies.ts';
import { StartRecords, STARTS } from './start-records.ts';

const DEADLINE = process.env['SPILLGATE_DEADLINE'] ?? '50ms';
const ONE_START_MS = 60_000;

let backend: Backend;
let records: StartRecords;

beforeAll(async () => {
  backend = await startBackend();
  records = new StartRecords('gateway', ['topology', 'failure policy', 'workers']);
});

afterAll(async () => backend.close());

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

      const above = await records.complete({
        cells: [name, failurePolicy, workers],
        admittedAtMost: ADMITTED_AT_MOST,
        start: async () => coldStart({ topology, backend, failurePolicy, workers, ...times }),
      });

      expect(above).toBe(0);
    },
    STARTS * ONE_START_MS,
  );
});

// Many processes that start in front of healthy servers and check at once: not one admission above the policy.
// SPILLGATE_STARTS: how many per line of the table, 100 if it is not set. SPILLGATE_CONTINUE=1: those of an earlier run
// that was ended count. SPILLGATE_DEADLINE_MS and SPILLGATE_CONNECT_TIMEOUT_MS: 50 and 1000, as by default, if they are
// not set; on a machine that is busy with something else, decisions take longer than that.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TOPOLOGIES, type StartedTopology } from '../redis/gateway-topologies.ts';
import { firstAnswers } from './first-checks-process.ts';
import { StartRecords, STARTS, type StartRecord } from './start-records.ts';

const DEADLINE_MS = Number(process.env['SPILLGATE_DEADLINE_MS'] ?? 50);
const CONNECT_TIMEOUT_MS = Number(process.env['SPILLGATE_CONNECT_TIMEOUT_MS'] ?? 1000);
const BURST = 4;
const CHECKS = 20;
const ONE_START_MS = 60_000;

let records: StartRecords;

beforeAll(() => {
  records = new StartRecords('library', ['topology', 'failure policy', 'processes']);
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
    '%s, processes: %i',
    async (failurePolicy, instances) => {
      const start = async (at: number): Promise<StartRecord> => {
        const prefix = `start-${failurePolicy}-${instances}-${at}:`;
        const options = { ...topology.place, connectTimeoutMs: CONNECT_TIMEOUT_MS, prefix };
        const checks = {
          options,
          failurePolicy,
          instances,
          burst: BURST,
          checks: CHECKS,
          deadlineMs: DEADLINE_MS,
        };
        const answers = await Promise.all(Array.from({ length: instances }, () => firstAnswers(checks)));
        return {
          admitted: answers.reduce((sum, { admitted }) => sum + admitted, 0),
          failures: answers.flatMap(({ failures }) => failures),
        };
      };

      const above = await records.complete({
        cells: [name, failurePolicy, instances],
        admittedAtMost: BURST,
        start,
      });

      expect(above).toBe(0);
    },
    STARTS * ONE_START_MS,
  );
});

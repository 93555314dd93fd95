// Many processes that start in front of healthy servers and check at once: not one admission above the policy.
// SPILLGATE_STARTS: how many per line of the table, 100 if it is not set. SPILLGATE_DEADLINE_MS and
// SPILLGATE_CONNECT_TIMEOUT_MS: 50 and 1000, as by default, if they are not set; on a machine that is busy with
// something else, decisions take longer than that.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TOPOLOGIES, type StartedTopology } from '../redis/gateway-topologies.ts';
import { firstAnswers } from './first-checks-process.ts';

const STARTS = Number(process.env['SPILLGATE_STARTS'] ?? 100);
const DEADLINE_MS = Number(process.env['SPILLGATE_DEADLINE_MS'] ?? 50);
const CONNECT_TIMEOUT_MS = Number(process.env['SPILLGATE_CONNECT_TIMEOUT_MS'] ?? 1000);
const BURST = 4;
const CHECKS = 20;
const ONE_START_MS = 60_000;

const rows: string[] = [
  'topology | failure policy | processes | starts | most admitted | above the policy | why',
];

afterAll(() => {
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
    '%s, processes: %i',
    async (failurePolicy, instances) => {
      const admitted: number[] = [];
      const why = new Set<string>();
      for (let at = 0; at < STARTS; at += 1) {
        const prefix = `start-${failurePolicy}-${instances}-${at}:`;
        const options = { ...topology.place, connectTimeoutMs: CONNECT_TIMEOUT_MS, prefix };
        const start = {
          options,
          failurePolicy,
          instances,
          burst: BURST,
          checks: CHECKS,
          deadlineMs: DEADLINE_MS,
        };
        const answers = await Promise.all(Array.from({ length: instances }, () => firstAnswers(start)));
        admitted.push(answers.reduce((sum, answer) => sum + answer.admitted, 0));
        for (const failure of answers.flatMap(({ failures }) => failures)) why.add(failure);
      }

      const above = admitted.filter((count) => count > BURST).length;
      rows.push(
        [name, failurePolicy, instances, STARTS, Math.max(...admitted), above, [...why].join(' ')].join(
          ' | ',
        ),
      );
      expect(above).toBe(0);
    },
    STARTS * ONE_START_MS,
  );
});

// What a configuration would change, and what reloads did.
import { describe, expect, test } from 'vitest';
import { startConfig } from './started-config.ts';

describe('what a configuration would change', () => {
  test('is told of a text and of the file, and nothing changes', async () => {
    const { active, write, swaps } = await startConfig('rate_limit: { average: 1 }');
    write('rate_limit: { average: 3 }');

    const ofText = await active.check('rate_limit: { average: 2 }');
    const ofFile = await active.check(undefined);

    expect(ofText.differences?.items).toEqual([{ path: 'rate_limit.average', before: 1, after: 2 }]);
    expect(ofFile.differences?.items).toEqual([{ path: 'rate_limit.average', before: 1, after: 3 }]);
    expect([swaps(), active.live().generation, active.reloads()]).toEqual([0, 1, []]);
  });

  test('is nothing where it would be refused', async () => {
    const { active } = await startConfig('rate_limit: { average: 1 }');

    const broken = await active.check('rate_limit: { average: none }');
    const fixed = await active.check('server: { workers: 2 }');

    expect(broken).toMatchObject({ differences: undefined, problems: [{ path: 'rate_limit.average' }] });
    expect(fixed).toMatchObject({ differences: undefined, problems: [{ path: 'server.workers' }] });
  });

  test('never tells of files that a text names', async () => {
    const { active } = await startConfig('rate_limit: { average: 1 }');

    const checked = await active.check('server: { tls: { cert_file: /nowhere/a, key_file: /nowhere/b } }');

    expect(JSON.stringify(checked.problems)).not.toContain('nowhere');
    expect(checked.differences?.items.map(({ path }) => path)).toContain('server.tls.cert_file');
  });
});

test('the last reloads are kept with what they changed, the latest first', async () => {
  const { active, write } = await startConfig('rate_limit: { average: 1 }');
  for (let average = 2; average <= 30; average += 1) {
    write(`rate_limit: { average: ${average} }`);
    await active.reload();
  }
  write('nonsense: 1');
  await active.reload();

  const [refused, applied, ...others] = active.reloads();
  expect(refused).toMatchObject({ outcome: 'refused', differences: undefined });
  expect(applied?.differences?.items).toEqual([{ path: 'rate_limit.average', before: 29, after: 30 }]);
  expect(others.length).toBe(18);
});

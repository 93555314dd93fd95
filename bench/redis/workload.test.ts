import { expect, test } from 'vitest';

import { hotWorkload, mixedWorkload } from './workload.ts';

test('every tenth request of the mixed load has to be denied', () => {
  const workload = mixedWorkload();

  const requests = Array.from({ length: 1000 }, () => workload.next());

  expect(requests.filter(({ policy }) => policy === 'tight')).toHaveLength(100);
  expect(new Set(requests.map(({ key }) => key)).size).toBeGreaterThan(900);
});

test('the hot load is one key', () => {
  const workload = hotWorkload();

  const requests = Array.from({ length: 10 }, () => workload.next());

  expect(new Set(requests.map(({ policy, key }) => `${policy} ${key}`)).size).toBe(1);
});

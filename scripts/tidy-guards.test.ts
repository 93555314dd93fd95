import { expect, test } from 'vitest';
import { PLANTED_TREES } from './guards/planted-trees.ts';

test.each(PLANTED_TREES)('the repository test reports $violation', ({ check, files, reports }) => {
  expect(check(files)).toEqual(reports);
});

import { expect, test } from 'vitest';
import { prepareAll } from '../../src/runtime/listen.ts';

test('all of it is made ready or none', async () => {
  const events: string[] = [];
  const change = (name: string) => ({
    commit: () => events.push(`commit ${name}`),
    abort: () => events.push(`abort ${name}`),
  });
  const failing = prepareAll([
    async () => Promise.resolve(change('a')),
    async () => Promise.reject(new Error('planted')),
    async () => Promise.resolve(change('c')),
  ]);

  await expect(failing).rejects.toThrow('planted');
  (
    await prepareAll([async () => Promise.resolve(change('d')), async () => Promise.resolve(change('e'))])
  ).commit();

  expect(events).toEqual(['abort a', 'commit d', 'commit e']);
});

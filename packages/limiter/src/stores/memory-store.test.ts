import { describe, expect, test } from 'vitest';
import { describeStore } from '../testing/index.ts';
import { memoryStore } from './memory-store.ts';

describeStore('memory', (clock) => memoryStore({ clock }), {
  sync: true,
  operations: 100_000,
  runner: {
    describe,
    test: (name, body) =>
      // oxlint-disable-next-line vitest/valid-title -- the suite names its own tests
      test(name, async () => {
        await expect(body()).resolves.toBeUndefined();
      }),
  },
});

import { describe, expect, test } from 'vitest';
import { describeStore } from '../../src/testing/index.ts';
import { memoryStore } from '../../src/stores/memory-store.ts';
import { runs } from '../../../../test/runs.ts';

describeStore('memory', (clock) => memoryStore({ clock }), {
  sync: true,
  slots: true,
  operations: runs(100_000),
  runner: {
    describe,
    test: (name, body) =>
      // oxlint-disable-next-line vitest/valid-title -- the suite names its own tests
      test(name, async () => {
        await expect(body()).resolves.toBeUndefined();
      }),
  },
});

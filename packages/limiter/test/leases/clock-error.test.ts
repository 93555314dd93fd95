import { expect, test } from 'vitest';
import { tokenBucket } from '../../src/policy.ts';
import { LeaseTable } from '../../src/stores/local/lease-table.ts';

const api = tokenBucket({ name: 'api', average: 1000, burst: 1000, period: '1s', leases: true });

/** A store whose clock is ahead of the process's by what a test says; answers take a millisecond. */
class JumpingStore {
  aheadUs = 500_000_000;
  processUs = 1_000_000;
  readonly table = new LeaseTable({
    nowUs: () => this.processUs,
    lease: async (_limit, want) => {
      const storeUs = this.processUs + this.aheadUs + 500;
      this.processUs += 1000;
      const end = { us: storeUs + want * 1000, fraction: 0 };
      return { grant: { tokens: want, end }, left: 500, storeUs };
    },
    returnLease: async () => false,
  });

  /** Requests, one per millisecond, until another lease has come. */
  async untilNextLease(): Promise<void> {
    const before = this.table.statistics().granted;
    while (this.table.statistics().granted === before) {
      this.processUs += 1000;
      this.table.decide([api.for('hot')], 1);
      await this.table.arrivalFor([api.for('hot')]);
    }
  }
}

test('clocks that differ and run alike are no error', async () => {
  const store = new JumpingStore();

  for (let lease = 0; lease < 5; lease += 1) await store.untilNextLease();

  expect(store.table.statistics().clockErrorUs).toBe(0);
});

test('a clock of the store that jumps ahead is, by how far it jumped', async () => {
  const store = new JumpingStore();
  await store.untilNextLease();

  store.aheadUs += 3_000_000;
  await store.untilNextLease();

  const { clockErrorUs } = store.table.statistics();
  expect(clockErrorUs).toBeGreaterThan(2_990_000);
  expect(clockErrorUs).toBeLessThanOrEqual(3_000_000);
});

test('a clock of the store that steps back is none', async () => {
  const store = new JumpingStore();
  await store.untilNextLease();

  store.aheadUs -= 3_000_000;
  await store.untilNextLease();

  expect(store.table.statistics().clockErrorUs).toBe(0);
});

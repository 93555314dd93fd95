import { uniform, zipf, type Order } from '../frame/keys.ts';
import { collectGarbage } from '../frame/machine.ts';
import { progress } from '../frame/progress.ts';
import { QuietSlices } from '../frame/quiet-slices.ts';
import type { Plan } from '../frame/rounds.ts';
import type { Report, SuiteOptions } from '../frame/suite.ts';
import { CANDIDATES } from './candidates.ts';
import type { Candidate } from './candidate.ts';
import { everyKey, fill } from './fill.ts';
import { measureHeap, type HeapUse } from './heap.ts';
import { memoryReport } from './report.ts';
import {
  formatKeys,
  measureScenario,
  type Distribution,
  type Measured,
  type MemoryRun,
  type Opened,
  type Outcome,
} from './scenario.ts';

const KEY_COUNTS = [1, 10_000, 1_000_000] as const;
const HEAP_KEY_COUNT = 1_000_000;
/** Never reached: more than any run decides per key. */
const AMPLE_LIMIT = 1_000_000_000;

const FULL: Plan = { rounds: 5, sliceMs: 200 };
const QUICK: Plan = { rounds: 3, sliceMs: 40 };
/** Of the full run: at most a minute more. */
const MAX_REPEATS = 120;

export async function memorySuite({ quick }: SuiteOptions): Promise<Report> {
  const plan = quick ? QUICK : FULL;
  const quiet = new QuietSlices(quick ? 0 : MAX_REPEATS);
  const heap = await measureHeaps();
  const measured: Measured[] = [];
  for (const keyCount of KEY_COUNTS) {
    const orders = ordersOf(keyCount);
    for (const outcome of ['allowed', 'denied'] as const) {
      measured.push(...(await measureOutcome(keyCount, outcome, orders, { plan, quiet })));
    }
  }
  return memoryReport({ measured, heap, heapKeyCount: HEAP_KEY_COUNT, plan, quiet });
}

async function measureHeaps(): Promise<ReadonlyMap<Candidate, HeapUse>> {
  const heap = new Map<Candidate, HeapUse>();
  for (const candidate of CANDIDATES) {
    progress(`heap of ${formatKeys(HEAP_KEY_COUNT)}: ${candidate.name}`);
    heap.set(candidate, await measureHeap(candidate.id, HEAP_KEY_COUNT));
  }
  return heap;
}

async function measureOutcome(
  keyCount: number,
  outcome: Outcome,
  orders: ReadonlyMap<Distribution, Order>,
  run: MemoryRun,
): Promise<readonly Measured[]> {
  progress(`${formatKeys(keyCount)}, ${outcome}: filling every store`);
  const opened: Opened[] = [];
  for (const candidate of CANDIDATES) {
    const subject = candidate.open(outcome === 'allowed' ? AMPLE_LIMIT : 1);
    await fill(subject, keyCount);
    opened.push({ candidate, subject });
  }
  collectGarbage();
  const measured: Measured[] = [];
  for (const [distribution, order] of orders) {
    progress(`${formatKeys(keyCount)}, ${outcome}, ${distribution}: ${run.plan.rounds} rounds`);
    measured.push(await measureScenario({ keyCount, distribution, outcome }, opened, order, run));
  }
  await Promise.all(opened.map(async ({ subject }) => subject.close(everyKey(keyCount))));
  return measured;
}

function ordersOf(keyCount: number): ReadonlyMap<Distribution, Order> {
  if (keyCount === 1) return new Map([['one key', uniform(1)]]);
  return new Map([
    ['uniform', uniform(keyCount)],
    ['zipf', zipf(keyCount)],
  ]);
}

import type { Chart, ChartBar } from '../frame/chart.ts';
import type { Candidate } from './candidate.ts';
import { netNs } from './cost.ts';
import type { HeapUse } from './heap.ts';
import { formatKeys, type Measured } from './scenario.ts';

interface ChartedMemory {
  readonly measured: readonly Measured[];
  readonly heap: ReadonlyMap<Candidate, HeapUse>;
  readonly heapKeyCount: number;
}

/** The call that everybody has: awaited, on keys that are asked for alike, all of them allowed. */
export function memoryCharts({ measured, heap, heapKeyCount }: ChartedMemory): readonly Chart[] {
  const speeds = measured
    .filter(({ scenario }) => scenario.outcome === 'allowed' && scenario.distribution !== 'zipf')
    .map((one): Chart => ({
      id: `memory-${one.scenario.keyCount}`,
      title: `Decisions per second in memory, ${formatKeys(one.scenario.keyCount)}`,
      unit: 'million/s',
      note: 'Awaited calls, every request allowed, net of the cost of making a key; higher is better',
      bars: barsOf([...one.awaitedNs.keys()], (candidate) => {
        const ns = netNs(one, 'awaited', candidate);
        return ns === undefined ? Number.NaN : 1000 / ns;
      }),
    }));
  const heapChart: Chart = {
    id: 'memory-heap',
    title: `Heap bytes per key at ${formatKeys(heapKeyCount)}`,
    unit: 'bytes',
    note: 'The key strings count; lower is better',
    bars: barsOf([...heap.keys()], (candidate) => heap.get(candidate)?.bytesPerKey ?? Number.NaN),
  };
  return [...speeds, heapChart];
}

function barsOf(
  candidates: readonly Candidate[],
  value: (candidate: Candidate) => number,
): readonly ChartBar[] {
  return candidates.map((candidate) => ({
    name: candidate.name,
    value: value(candidate),
    ...(candidate.ours ? { ours: true } : {}),
  }));
}

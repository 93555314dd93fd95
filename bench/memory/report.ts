import type { QuietSlices } from '../frame/quiet-slices.ts';
import type { Plan } from '../frame/rounds.ts';
import type { Report } from '../frame/suite.ts';
import type { Column, Table } from '../frame/table.ts';
import type { Candidate } from './candidate.ts';
import { CANDIDATES } from './candidates.ts';
import { memoryCharts } from './charts.ts';
import { netNs, rawNs, type Cost, type Kind } from './cost.ts';
import { memoryGoals } from './goals.ts';
import type { HeapUse } from './heap.ts';
import { tokenBucketCandidate } from './ours.ts';
import { formatKeys, type Measured } from './scenario.ts';

export interface Results {
  readonly measured: readonly Measured[];
  readonly heap: ReadonlyMap<Candidate, HeapUse>;
  readonly heapKeyCount: number;
  readonly plan: Plan;
  readonly quiet: QuietSlices;
}

export function memoryReport(results: Results): Report {
  const { measured, plan, quiet } = results;
  const keyCounts = [...new Set(measured.map(({ scenario }) => scenario.keyCount))];
  return {
    title: 'Embedded memory store: decisions per second and heap bytes per key',
    facts: [
      `Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms slices, all contenders interleaved in one process, one warm-up round thrown away.`,
      'Every key is a new string, an address such as 10.37.201.14, made inside the timed loop by the same generator for everybody.',
      'Raw counts the generator, net subtracts its cost, which is measured alone in the same rounds.',
      'Allowed: a limit nobody reaches. Denied: limit 1, every key spent before. Every answer is checked.',
      '(x): decisions per second as a multiple of the Spillgate token bucket, called the same way.',
      'zipf: s = 1, popular keys scattered over the table. n/a: that call waits for its turn and never denies.',
      'Heap: heapUsed + external (which includes array buffers) after a full collection, minus the same before the store was made; the key strings count; a fresh process each.',
      quiet.summary(),
    ],
    tables: [
      ...keyCounts.flatMap((keyCount) => {
        const ofCount = measured.filter(({ scenario }) => scenario.keyCount === keyCount);
        const keys = formatKeys(keyCount);
        return [
          rateTable(`Net decisions per second, ${keys}`, ofCount, netNs, []),
          rateTable(`Raw decisions per second, ${keys}`, ofCount, rawNs, [generatorRow(ofCount)]),
        ];
      }),
      heapTable(results),
    ],
    goals: memoryGoals(measured, results.heap),
    charts: memoryCharts(results),
    disturbance: quiet.disturbance(),
  };
}

function rateTable(
  title: string,
  measured: readonly Measured[],
  cost: Cost,
  extraRows: Table['rows'],
): Table {
  const scenarios = measured.map(({ scenario }) => `${scenario.distribution}, ${scenario.outcome}`);
  const rowOf = (kind: Kind, candidate: Candidate): readonly string[] => [
    candidate.name,
    (kind === 'sync' ? candidate.syncCall : candidate.awaitedCall) ?? '',
    ...measured.map((one) => rateCell(one, kind, candidate, cost)),
  ];
  const synchronous = CANDIDATES.filter(({ syncCall }) => syncCall !== undefined);
  return {
    title,
    columns: [left('contender'), left('call'), ...scenarios.map(right)],
    rows: [
      ...synchronous.map((candidate) => rowOf('sync', candidate)),
      ...CANDIDATES.map((candidate) => rowOf('awaited', candidate)),
      ...extraRows,
    ],
  };
}

function rateCell(measured: Measured, kind: Kind, candidate: Candidate, cost: Cost): string {
  const ns = cost(measured, kind, candidate);
  const oursNs = cost(measured, kind, tokenBucketCandidate);
  if (ns === undefined || oursNs === undefined) return 'n/a';
  return `${formatRate(ns)} (${(oursNs / ns).toFixed(2)}x)`;
}

function generatorRow(measured: readonly Measured[]): readonly string[] {
  const cells = measured.map(({ generatorNs }) => `${formatRate(generatorNs)} (${generatorNs.toFixed(0)}ns)`);
  return ['key generator alone', '', ...cells];
}

function heapTable({ heap, heapKeyCount }: Results): Table {
  const ours = heap.get(tokenBucketCandidate)?.bytesPerKey ?? Number.NaN;
  return {
    title: `Bytes per key at ${formatKeys(heapKeyCount)}`,
    columns: [left('contender'), right('heap'), right('x of ours'), right('resident set growth')],
    rows: [...heap].map(([candidate, use]) => [
      candidate.name,
      use.bytesPerKey.toFixed(0),
      `${(use.bytesPerKey / ours).toFixed(2)}x`,
      use.residentBytesPerKey.toFixed(0),
    ]),
  };
}

function formatRate(nsPerDecision: number): string {
  const perSecond = 1e9 / nsPerDecision;
  return perSecond >= 1e6 ? `${(perSecond / 1e6).toFixed(2)}M` : `${(perSecond / 1e3).toFixed(0)}k`;
}

function left(title: string): Column {
  return { title, align: 'left' };
}

function right(title: string): Column {
  return { title, align: 'right' };
}

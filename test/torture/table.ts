import type { EpisodeResult, PolicyResult } from './episode.ts';
import { FAULT_KINDS, type FaultKind } from './plan.ts';

const MIXED = 'several kinds';

/** One row per fault: how often, and by failure policy what was promised above the policy and what was measured. */
export function tableOf(results: readonly EpisodeResult[]): string {
  const rows = [...FAULT_KINDS, MIXED].flatMap((kind) => {
    const those = results.filter(({ plan }) => kindOf(plan.faults.map((fault) => fault.kind)) === kind);
    return those.length === 0 ? [] : [rowOf(kind, those)];
  });
  return [
    '| fault | episodes | checks noted | `failClosed`: promised | measured | `inMemoryFallback`: promised | measured | replayed, all equal | decides again after |',
    '|---|--:|--:|--:|--:|--:|--:|--:|--:|',
    ...rows,
  ].join('\n');
}

function kindOf(kinds: readonly FaultKind[]): string {
  const [first, ...others] = new Set(kinds);
  return first === undefined || others.length > 0 ? MIXED : first;
}

function rowOf(kind: string, results: readonly EpisodeResult[]): string {
  const cells = [
    kind,
    results.length,
    sum(results.map(({ checks }) => checks)),
    ...closest(results.filter(({ failurePolicy }) => failurePolicy === 'failClosed')),
    ...closest(results.filter(({ failurePolicy }) => failurePolicy === 'inMemoryFallback')),
    sum(results.map(({ replayed }) => replayed)),
    `${Math.ceil(Math.max(...results.map(({ recoveryMs }) => recoveryMs)))} ms`,
  ];
  return `| ${cells.join(' | ')} |`;
}

/** Promise and measurement of the policy that came closest to its promise, or broke it. */
function closest(results: readonly EpisodeResult[]): readonly (number | string)[] {
  const policies = results.flatMap((result) => result.policies);
  const share = ({ promised, measured }: PolicyResult): number =>
    measured === 0 ? 0 : measured / Math.max(promised, Number.MIN_VALUE);
  const [first] = policies.toSorted((a, b) => share(b) - share(a) || b.promised - a.promised);
  return first === undefined ? ['', ''] : [Math.floor(first.promised), Math.ceil(first.measured)];
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

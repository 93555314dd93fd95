import type { DenialTally } from './denial-tally.ts';
import type { LogReading, Replay } from './replay-log.ts';

const KEYS = 100;

/** The result for programs. */
export function jsonReport({ reading, tally, comparison }: Replay): object {
  return {
    reading: readingJson(reading),
    ...tallyOf(tally),
    against: comparison && {
      current: tallyOf(comparison.current),
      newlyDenied: tallyOf(comparison.newlyDenied),
      newlyAdmitted: tallyOf(comparison.newlyAdmitted),
    },
  };
}

export function readingJson({ formats, fromMs, toMs, ...counts }: LogReading): object {
  return {
    ...counts,
    formats: Object.fromEntries(formats),
    from: fromMs === undefined ? undefined : new Date(fromMs).toISOString(),
    to: toMs === undefined ? undefined : new Date(toMs).toISOString(),
  };
}

function tallyOf(tally: DenialTally): object {
  const { sliceMs, slices } = tally.timeline();
  return {
    ...tally.total,
    reasons: Object.fromEntries(tally.reasons),
    rules: [...tally.rules].map(([rule, counts]) => ({ rule, ...counts })),
    policies: [...tally.policies].map(([policy, { denied, wouldDeny }]) => ({ policy, denied, wouldDeny })),
    deniedKeys: tally.deniedKeyCount,
    keys: tally.deniedKeys(KEYS),
    sliceSeconds: sliceMs / 1000,
    slices: slices.map(({ fromMs, ...counts }) => ({ from: new Date(fromMs).toISOString(), ...counts })),
  };
}

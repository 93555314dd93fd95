import { LimiterError, show } from './errors.ts';

/** `'250ms'`, `'1s'`, `'1m'`, `'1h30m'`, `'1d'`, or a number of milliseconds. */
export type Duration = string | number;

const UNITS_US = { d: 86_400_000_000, h: 3_600_000_000, m: 60_000_000, s: 1_000_000, ms: 1000 } as const;

/** Whole numbers with descending units, each at most once. */
const PATTERN = /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?$/;

const ACCEPTED = "write it like '250ms', '1s', '1m', '1h30m' or '1d', or as a number of milliseconds";

export interface DurationBounds {
  /** How the message calls it: `period`, `window`, ... */
  readonly name: string;
  readonly minUs: number;
  readonly maxUs: number;
}

/**
 * A duration in whole microseconds; a `LimiterError` that starts with `bounds.name` if it is none, or out of bounds.
 */
export function parseDuration(value: unknown, bounds: DurationBounds): number {
  const us =
    typeof value === 'number'
      ? fromMilliseconds(value)
      : typeof value === 'string'
        ? fromText(value)
        : undefined;
  if (us === undefined) {
    throw new LimiterError(
      'INVALID_DURATION',
      `${bounds.name} is ${show(value)}, which is not a duration: ${hintFor(value)}${ACCEPTED}.`,
    );
  }
  if (us < bounds.minUs || us > bounds.maxUs) {
    const range = `${formatDuration(bounds.minUs)} to ${formatDuration(bounds.maxUs)}`;
    throw new LimiterError(
      'INVALID_DURATION',
      `${bounds.name} is ${show(value)}, outside ${range}: ${ACCEPTED}.`,
    );
  }
  return us;
}

/** A bare number is the most common mistake in an environment variable. */
function hintFor(value: unknown): string {
  return typeof value === 'string' && /^\d{1,15}$/.test(value)
    ? `the unit is missing, as in '${value}s': `
    : '';
}

/** Microseconds as text: `1h30m`, `1.5ms`. `parseDuration` reads it back if they are whole milliseconds. */
export function formatDuration(us: number): string {
  if (us < UNITS_US.ms || us % UNITS_US.ms !== 0) return `${us / UNITS_US.ms}ms`;
  let rest = us;
  let text = '';
  for (const [unit, unitUs] of Object.entries(UNITS_US)) {
    const count = Math.floor(rest / unitUs);
    rest -= count * unitUs;
    if (count > 0) text += `${count}${unit}`;
  }
  return text;
}

const ROUNDING = 1e-9;

function fromMilliseconds(ms: number): number | undefined {
  const us = Math.round(ms * 1000);
  // Only whole microseconds exist: 0.001 does, 0.0001 does not; what a sum of fractions adds in rounding is forgiven.
  // NaN and the infinities fail here too.
  return Math.abs(ms * 1000 - us) <= Math.abs(us) * ROUNDING && Number.isSafeInteger(us) ? us : undefined;
}

function fromText(text: string): number | undefined {
  const match = text.length > 0 && text.length <= 64 ? PATTERN.exec(text) : null;
  if (match === null) return undefined;
  const us = Object.values(UNITS_US).reduce(
    (sum, unitUs, at) => sum + Number(match[at + 1] ?? 0) * unitUs,
    0,
  );
  return us;
}

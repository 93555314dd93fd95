/** The units of Envoy's protocol, by their numbers there. */
export const LIMIT_UNITS = ['unknown', 'second', 'minute', 'hour', 'day', 'month', 'year', 'week'] as const;

export type LimitUnit = Exclude<(typeof LIMIT_UNITS)[number], 'unknown'>;

const SECOND_MS = 1000;
const DAY_MS = 86_400 * SECOND_MS;

/** A month has 30 days and a year 365, as Envoy reads them. */
const LENGTHS_MS: Readonly<Record<LimitUnit, number>> = {
  second: SECOND_MS,
  minute: 60 * SECOND_MS,
  hour: 3600 * SECOND_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 30 * DAY_MS,
  year: 365 * DAY_MS,
};

export function unitMs(unit: LimitUnit): number {
  return LENGTHS_MS[unit];
}

export function unitNamed(name: string): LimitUnit | undefined {
  const lower = name.toLowerCase();
  return LIMIT_UNITS.find((unit): unit is LimitUnit => unit === lower && unit !== 'unknown');
}

/** The unit that is exactly so long, if there is one. */
export function unitOfLength(ms: number): LimitUnit | undefined {
  return LIMIT_UNITS.find((unit): unit is LimitUnit => unit !== 'unknown' && LENGTHS_MS[unit] === ms);
}

export function unitNumber(unit: LimitUnit | undefined): number {
  return unit === undefined ? 0 : LIMIT_UNITS.indexOf(unit);
}

/** What a request may ask for itself: the protocol has no week there. */
export function overrideUnit(number: number): LimitUnit | undefined {
  const unit = LIMIT_UNITS[number];
  return unit === undefined || unit === 'unknown' || unit === 'week' ? undefined : unit;
}

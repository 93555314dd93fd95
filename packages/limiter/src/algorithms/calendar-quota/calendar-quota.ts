import { LimiterError, show } from '../../errors.ts';
import {
  NEVER,
  Outcome,
  type Algorithm,
  type AnyNumbers,
  type OptionValues,
  type PastCharge,
} from '../algorithm.ts';
import { COUNT_PACKING, loosenQuota, type CountState } from '../window.ts';
import { Calendar, CALENDAR_UNITS, type CalendarUnit, type Edges } from './calendar.ts';

export interface CalendarQuotaNumbers {
  /** Units admitted per period: an integer >= 1. */
  readonly quota: number;
  /** The period: a calendar day, week, month or year, or `'ever'`, a quota for life that only `forget` renews. */
  readonly every: CalendarUnit;
  /** Whose midnight counts: a name of the IANA time zone database. Default: `'UTC'`. */
  readonly timeZone?: string | undefined;
  /**
   * Where a period starts. Of a week, a day from 1 (Monday) to 7; of a month, a day from 1 to 31, or its last day where
   * it has fewer; of a year, the first day of a month from 1 to 12. Default: 1.
   */
  readonly startsOn?: number | undefined;
}

/** The edges are those around the moment at which the numbers are sent to a server, which knows no calendar. */
export interface CompiledCalendarQuota extends AnyNumbers, Edges {
  readonly calendar: Calendar;
}

const DAY_US = 86_400_000_000;
/** The longest that a period can be, but for the hour that a change of clocks adds. */
const LONGEST_US: Readonly<Record<CalendarUnit, number>> = {
  day: DAY_US,
  week: 7 * DAY_US,
  month: 31 * DAY_US,
  year: 366 * DAY_US,
  ever: 36_500 * DAY_US,
};
const LAST_START: Readonly<Record<CalendarUnit, number>> = { day: 1, week: 7, month: 31, year: 12, ever: 1 };

/** Counts within the periods of a calendar. Honest bound: 2 * quota in a span that straddles an edge. */
export const calendarQuotaAlgorithm: Algorithm<
  'calendarQuota',
  CalendarQuotaNumbers,
  CompiledCalendarQuota,
  CountState
> = {
  name: 'calendarQuota',

  decide: decideCalendarQuota,
  absentAtUs: (state, { calendar }) => calendar.periodAt(state.startUs).endUs,

  options: {
    quota: { kind: 'count', description: 'Units admitted per period.' },
    every: {
      kind: 'choice',
      choices: CALENDAR_UNITS,
      description: 'The period. `ever` is a quota for life: nothing comes back until the key is forgotten.',
    },
    timeZone: {
      kind: 'timeZone',
      optional: true,
      description: 'Whose midnight counts, by its IANA name, such as `Europe/Berlin`. Unset: `UTC`.',
    },
    startsOn: {
      kind: 'count',
      most: 31,
      optional: true,
      description:
        'The first day of a week (1 is Monday), the first day of a month, or the first month of a year. Unset: 1.',
    },
  },
  compile: compileCalendarQuota,
  amounts: ({ quota, every }) => [quota, quota / LONGEST_US[every]],
  refund: refundCalendarQuota,
  loosen: loosenQuota,
  share: (numbers, instances) => ({
    ...numbers,
    limit: Math.max(1, Math.floor(numbers.limit / instances)),
  }),
  advertise: ({ limit, calendar }) => {
    const refillUs = LONGEST_US[calendar.rule.every];
    return { refillUs, unitsIn: (spanUs) => (spanUs * limit) / refillUs, afterFirstUnitUs: 0 };
  },

  rateId: () => '',
  packing: () => COUNT_PACKING,
  redis: {
    number: 6,
    numbers: { limit: 1, firstUs: 0, secondUs: 1, thirdUs: 1 },
    renew: (numbers, nowUs) => ({ ...numbers, ...numbers.calendar.edgesAround(nowUs) }),
    leastDoubles: 2,
    recordDoubles: 0,
    toDoubles: ({ startUs, count }) => [startUs, count],
    fromDoubles: ([startUs = 0, count = 0]) => ({ startUs, count }),
  },
};

function decideCalendarQuota(
  state: CountState | undefined,
  { limit, calendar }: CompiledCalendarQuota,
  cost: number,
  nowUs: number,
  out: Outcome<CountState> = new Outcome(),
): Outcome<CountState> {
  const current = calendar.periodAt(nowUs);
  // A period that starts after `now` means the clock stepped back: keep counting in that period, or, if it is more than
  // half a period away, take the count along into this one.
  const live = state !== undefined && state.startUs >= current.startUs;
  const moved = live && state.startUs - nowUs > (current.endUs - current.startUs) / 2;
  const startUs = live && !moved ? state.startUs : current.startUs;
  const used = live ? state.count : 0;
  const endUs = calendar.periodAt(startUs).endUs - nowUs;
  const fits = cost <= limit - used;
  const total = fits ? used + cost : used;
  out.allowed = fits || cost === 0;
  out.remaining = Math.max(0, limit - total);
  out.retryAfterUs = out.allowed ? 0 : cost > limit || calendar.isEndless ? NEVER : endUs;
  out.resetAfterUs = total > 0 ? endUs : 0;
  out.delayUs = 0;
  out.spent = fits && cost > 0 ? { startUs, count: total } : undefined;
  out.carried = moved ? { startUs, count: used } : undefined;
  return out;
}

function compileCalendarQuota({
  quota,
  every,
  timeZone = 'UTC',
  startsOn = 1,
}: OptionValues<CalendarQuotaNumbers>): { numbers: CompiledCalendarQuota; stateId: string } {
  if (startsOn > LAST_START[every]) {
    throw new LimiterError(
      'INVALID_POLICY',
      `startsOn is ${show(startsOn)} and every is ${show(every)}; expected an integer from 1 to ${LAST_START[every]}${LAST_START[every] === 1 ? ': leave it out' : ''}.`,
    );
  }
  const calendar = new Calendar({ every, timeZone, startsOn });
  return {
    // Of the wall clock's today; renewed whenever they are sent.
    numbers: { limit: quota, ...calendar.edgesAround(Date.now() * 1000), calendar },
    stateId: `/${every}/${timeZone}/${startsOn}`,
  };
}

/** A count belongs to its period; one that is over took the reservation with it. */
function refundCalendarQuota(
  state: CountState,
  { calendar }: CompiledCalendarQuota,
  { cost, absentAtUs }: PastCharge,
): CountState {
  const { startUs, count } = state;
  if (calendar.periodAt(startUs).endUs !== absentAtUs || count < cost) return state;
  return { startUs, count: count - cost };
}

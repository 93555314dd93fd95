import type { CalendarQuotaNumbers } from '../../src/algorithms/calendar-quota/calendar-quota.ts';
import { calendarQuota } from '../../src/policy.ts';
import type { Definition } from './model.ts';
import { DAY, MS } from './policies.ts';
import { subjectOf, type AlgorithmModel, type Subject } from './subject.ts';
import { TemporalPeriods } from './temporal-periods.ts';

/** Every admission ever, newest first. */
interface PeriodAdmission {
  readonly startUs: number;
  readonly cost: number;
  readonly earlier: PeriodAdmission | undefined;
}

interface CalendarPeriods {
  /** The period of a moment, in microseconds. */
  at(us: number): { readonly startUs: number; readonly endUs: number };
}

/**
 * Each period of the calendar holds `quota`. A clock that steps back stays in the latest period that admitted
 * something.
 */
function define(quota: number, periods: CalendarPeriods, longestUs: number): Definition<PeriodAdmission> {
  const startUs = (latest: PeriodAdmission | undefined, nowUs: number): number =>
    Math.max(periods.at(nowUs).startUs, latest?.startUs ?? 0);
  const free = (latest: PeriodAdmission | undefined, nowUs: number): number => {
    const currentUs = startUs(latest, nowUs);
    let left = quota;
    for (let each = latest; each?.startUs === currentUs; each = each.earlier) left -= each.cost;
    return left;
  };
  const countBetween = (fromUs: number, toUs: number): number => {
    let count = 1;
    for (let { endUs } = periods.at(fromUs); endUs <= toUs; { endUs } = periods.at(endUs)) count += 1;
    return count;
  };

  return {
    limit: quota,
    fits: (latest, cost, nowUs) => cost <= free(latest, nowUs),
    available: free,
    delayUs: () => 0,
    admit: (latest, cost, nowUs) => ({ startUs: startUs(latest, nowUs), cost, earlier: latest }),
    stepBack(latest, nowUs) {
      const current = periods.at(nowUs);
      if ((latest.startUs - nowUs) * 2 <= current.endUs - current.startUs) return undefined;
      return { startUs: current.startUs, cost: quota - free(latest, nowUs), earlier: undefined };
    },
    horizonUs: (latest) => periods.at(latest.startUs).endUs,
    mostBetween: (fromUs, toUs) => BigInt(quota) * BigInt(countBetween(fromUs, toUs)),
    mostAlong(readingsUs) {
      let entered = 1;
      for (const [at, readingUs] of readingsUs.entries()) {
        const beforeUs = readingsUs[at - 1] ?? readingUs;
        if (readingUs > beforeUs) entered += countBetween(beforeUs, readingUs) - 1;
      }
      return BigInt(quota) * BigInt(entered);
    },
    toleratedUs: Math.max(1, Math.min(halfOfShortest(longestUs), halfOfFirst(periods))),
  };
}

/** Months and years differ by up to three days, days by an hour. */
function halfOfShortest(longestUs: number): number {
  const lessUs = Math.floor(longestUs / 2) - 3 * DAY;
  return lessUs > 0 ? lessUs : 11 * (DAY / 24);
}

/** Clocks begin in 1970, in the middle of a period. */
function halfOfFirst(periods: CalendarPeriods): number {
  const { startUs, endUs } = periods.at(0);
  return Math.floor((endUs - Math.max(0, startUs)) / 2);
}

const LONGEST_DAYS = { day: 1, week: 7, month: 31, year: 366 } as const;
type PassingUnit = keyof typeof LONGEST_DAYS;

const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/Sao_Paulo',
  'Asia/Beirut',
  'Pacific/Apia',
  'Australia/Lord_Howe',
];

export const calendarQuotaModel: AlgorithmModel = {
  awkward: () => [
    subject(3, { every: 'day', timeZone: 'Europe/Berlin', startsOn: 1 }),
    subject(1, { every: 'day', timeZone: 'Asia/Beirut', startsOn: 1 }),
    subject(7, { every: 'week', timeZone: 'America/New_York', startsOn: 7 }),
    subject(2 ** 52, { every: 'month', timeZone: 'Europe/Lisbon', startsOn: 31 }),
    subject(1000, { every: 'month', timeZone: 'UTC', startsOn: 1 }),
    subject(104_729, { every: 'year', timeZone: 'Asia/Kathmandu', startsOn: 4 }),
  ],
  random(random) {
    const every = random.pick<PassingUnit>(['day', 'week', 'month', 'year']);
    const startsOn = {
      day: 1,
      week: random.integer(1, 7),
      month: random.integer(1, 31),
      year: random.integer(1, 12),
    };
    return subject(random.magnitude(1, 2 ** 52), {
      every,
      timeZone: random.pick(ZONES),
      startsOn: startsOn[every],
    });
  },
};

function subject(
  quota: number,
  rule: { readonly every: PassingUnit; readonly timeZone: string; readonly startsOn: number },
): Subject {
  const numbers: CalendarQuotaNumbers = { quota, ...rule };
  const { plan } = calendarQuota({ name: 'p', ...numbers });
  const temporal = new TemporalPeriods(rule);
  const periods: CalendarPeriods = {
    at(us) {
      const { startMs, endMs } = temporal.at(Math.floor(us / MS));
      return { startUs: startMs * MS, endUs: endMs * MS };
    },
  };
  const spanUs = LONGEST_DAYS[rule.every] * DAY;
  return subjectOf({
    numbers,
    algorithm: plan.algorithm,
    compiled: plan.numbers,
    definition: define(quota, periods, spanUs),
    spanUs,
  });
}

import { MAX_TIME_US } from '../algorithm.ts';
import { ZoneDays } from './zone-days.ts';

export const CALENDAR_UNITS = ['day', 'week', 'month', 'year', 'ever'] as const;
export type CalendarUnit = (typeof CALENDAR_UNITS)[number];

export interface CalendarRule {
  readonly every: CalendarUnit;
  readonly timeZone: string;
  /** The first weekday of a week (1 is Monday), the first day of a month, or the first month of a year. */
  readonly startsOn: number;
}

export interface Period {
  readonly startUs: number;
  /** The start of the next one. */
  readonly endUs: number;
}

/** Where one period ends and the next begins, three times in a row. */
export interface Edges {
  readonly firstUs: number;
  readonly secondUs: number;
  readonly thirdUs: number;
}

const MS_US = 1000;
/** Clocks end here, and so does a period without an end. */
const EVER: Period = { startUs: 0, endUs: MAX_TIME_US + 1 };
const MAX_REMEMBERED = 1000;

/** The periods of a calendar, one after the other, without gaps. */
export class Calendar {
  readonly rule: CalendarRule;
  private readonly days: ZoneDays;
  private readonly numbering: PeriodNumbering;
  private readonly starts = new Map<number, number>();
  private recent: Period = { startUs: 0, endUs: 0 };
  private recentEdges: Edges = { firstUs: 0, secondUs: 0, thirdUs: 0 };

  constructor(rule: CalendarRule) {
    this.rule = rule;
    this.days = new ZoneDays(rule.timeZone);
    this.numbering = NUMBERINGS[rule.every](rule.startsOn);
    if (this.isEndless) this.recent = EVER;
  }

  /** One period for all times. */
  get isEndless(): boolean {
    return this.rule.every === 'ever';
  }

  /** The period that a moment lies in. Most are asked for again and again, and no `Intl` is asked for them. */
  periodAt(us: number): Period {
    const { recent } = this;
    if (us >= recent.startUs && us < recent.endUs) return recent;
    let number = this.numbering.numberOf(this.days.dayAt(Math.floor(us / MS_US)));
    // After clocks were turned back over midnight it is the day before once more; that day's period has ended all the
    // same.
    while (us >= this.startUs(number + 1)) number += 1;
    while (us < this.startUs(number)) number -= 1;
    this.recent = { startUs: this.startUs(number), endUs: this.startUs(number + 1) };
    return this.recent;
  }

  /**
   * Three edges around a moment: the closest one in the middle. Whoever has another clock finds their period between
   * them, if the two differ by less than half a period.
   */
  edgesAround(us: number): Edges {
    const { firstUs, secondUs, thirdUs } = this.recentEdges;
    if (us * 2 >= firstUs + secondUs && us * 2 < secondUs + thirdUs) return this.recentEdges;
    this.recentEdges = this.findEdges(us);
    return this.recentEdges;
  }

  private findEdges(us: number): Edges {
    const { startUs, endUs } = this.periodAt(us);
    if (us * 2 < startUs + endUs && startUs > 0) {
      return { firstUs: this.periodAt(startUs - 1).startUs, secondUs: startUs, thirdUs: endUs };
    }
    const thirdUs = this.isEndless ? endUs + 1 : this.periodAt(endUs).endUs;
    return { firstUs: startUs, secondUs: endUs, thirdUs };
  }

  /** Not before 1970, when clocks begin. */
  private startUs(number: number): number {
    const known = this.starts.get(number);
    if (known !== undefined) return known;
    const startUs = Math.max(0, this.days.startOfDay(this.numbering.firstDayOf(number)) * MS_US);
    if (this.starts.size >= MAX_REMEMBERED) this.starts.clear();
    this.starts.set(number, startUs);
    return startUs;
  }
}

/** Periods are numbered, so that the next one is the next number. */
interface PeriodNumbering {
  numberOf(day: number): number;
  firstDayOf(number: number): number;
}

/** 1970-01-01 was a Thursday. */
const MONDAY_BEFORE_1970 = -3;
const WEEK_DAYS = 7;
const MONTHS = 12;
const DAY_MS = 86_400_000;

const NUMBERINGS: Readonly<Record<CalendarUnit, (startsOn: number) => PeriodNumbering>> = {
  day: () => ({ numberOf: (day) => day, firstDayOf: (number) => number }),
  week: (startsOn) => {
    const first = MONDAY_BEFORE_1970 + startsOn - 1;
    return {
      numberOf: (day) => Math.floor((day - first) / WEEK_DAYS),
      firstDayOf: (number) => number * WEEK_DAYS + first,
    };
  },
  month: (startsOn) => {
    const firstDayOf = (number: number): number => {
      const lastDay = new Date(Date.UTC(1970, number + 1, 0)).getUTCDate();
      return Date.UTC(1970, number, Math.min(startsOn, lastDay)) / DAY_MS;
    };
    const numberOf = (day: number): number => {
      const number = monthsSince1970(day);
      return day < firstDayOf(number) ? number - 1 : number;
    };
    return { numberOf, firstDayOf };
  },
  year: (startsOn) => ({
    numberOf: (day) => Math.floor((monthsSince1970(day) - (startsOn - 1)) / MONTHS),
    firstDayOf: (number) => Date.UTC(1970, number * MONTHS + startsOn - 1, 1) / DAY_MS,
  }),
  ever: () => ({ numberOf: () => 0, firstDayOf: () => 0 }),
};

function monthsSince1970(day: number): number {
  const date = new Date(day * DAY_MS);
  return (date.getUTCFullYear() - 1970) * MONTHS + date.getUTCMonth();
}

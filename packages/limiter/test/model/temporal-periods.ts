import { Temporal } from '@js-temporal/polyfill';
import type { CalendarRule } from '../../src/algorithms/calendar-quota/calendar.ts';

/** Where a period starts and where the next one does, in milliseconds. */
export interface TemporalPeriod {
  readonly startMs: number;
  readonly endMs: number;
}

/** The periods of a calendar by `Temporal`, which shares no code with ours. Slow, so each is worked out once. */
export class TemporalPeriods {
  private readonly rule: CalendarRule;
  private readonly known: TemporalPeriod[] = [];

  constructor(rule: CalendarRule) {
    this.rule = rule;
  }

  at(ms: number): TemporalPeriod {
    const known = this.known.find(({ startMs, endMs }) => ms >= startMs && ms < endMs);
    if (known !== undefined) return known;
    const found = this.find(ms);
    this.known.push(found);
    return found;
  }

  private find(ms: number): TemporalPeriod {
    const { timeZone } = this.rule;
    const today = Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(timeZone).toPlainDate();
    // One day of doubt: after a step back over midnight the date is that of a period that has ended.
    for (const days of [1, 0, -1]) {
      const first = this.firstDate(today.add({ days }));
      const startMs = startOf(first, timeZone);
      if (startMs <= ms) return { startMs: Math.max(0, startMs), endMs: startOf(this.next(first), timeZone) };
    }
    throw new Error(`no period of ${JSON.stringify(this.rule)} has ${ms}`);
  }

  /** The date on which the period of this date begins. */
  private firstDate(date: Temporal.PlainDate): Temporal.PlainDate {
    const { every, startsOn } = this.rule;
    if (every === 'day') return date;
    if (every === 'week') return date.subtract({ days: (date.dayOfWeek - startsOn + 7) % 7 });
    if (every === 'month') {
      const here = anchored(date, startsOn);
      const isBefore = Temporal.PlainDate.compare(date, here) < 0;
      return isBefore ? anchored(date.with({ day: 1 }).subtract({ months: 1 }), startsOn) : here;
    }
    const here = date.with({ month: startsOn, day: 1 });
    return Temporal.PlainDate.compare(date, here) < 0 ? here.subtract({ years: 1 }) : here;
  }

  private next(first: Temporal.PlainDate): Temporal.PlainDate {
    const { every, startsOn } = this.rule;
    if (every === 'day') return first.add({ days: 1 });
    if (every === 'week') return first.add({ weeks: 1 });
    if (every === 'month') return anchored(first.with({ day: 1 }).add({ months: 1 }), startsOn);
    return first.add({ years: 1 });
  }
}

function anchored(date: Temporal.PlainDate, day: number): Temporal.PlainDate {
  return date.with({ day: Math.min(day, date.daysInMonth) });
}

function startOf(date: Temporal.PlainDate, timeZone: string): number {
  return date.toZonedDateTime(timeZone).epochMilliseconds;
}

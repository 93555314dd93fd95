// Days of a time zone, from `Intl` alone. A local day is the number of days since 1970-01-01 on the wall calendar of
// the zone.
import { LimiterError, show } from '../../errors.ts';

const SECOND_MS = 1000;
const DAY_MS = 86_400_000;
const DIGITS = /\d+/g;

/** The days of one time zone. Asking `Intl` takes microseconds: whoever asks often keeps the answer. */
export class ZoneDays {
  private readonly format: Intl.DateTimeFormat;

  constructor(timeZone: string) {
    this.format = zoneFormat(timeZone);
  }

  /** The local day at a moment. */
  dayAt(ms: number): number {
    return Math.floor((ms + this.offsetMs(ms)) / DAY_MS);
  }

  /**
   * The first moment of a local day. Where clocks jump over midnight it is the moment of the jump, which may be any
   * time of the day; where they show midnight twice, it is the first of the two. A day that a zone skipped begins and
   * ends at the jump.
   */
  startOfDay(day: number): number {
    const wallMs = day * DAY_MS;
    const beforeMs = this.offsetMs(wallMs - DAY_MS);
    const afterMs = this.offsetMs(wallMs + DAY_MS);
    for (const offsetMs of [beforeMs, afterMs]) {
      if (this.offsetMs(wallMs - offsetMs) === offsetMs) return wallMs - offsetMs;
    }
    return this.firstMomentFrom(day, wallMs - DAY_MS, wallMs + DAY_MS);
  }

  /** Midnight does not exist: the first moment at which it is that day or later. */
  private firstMomentFrom(day: number, fromMs: number, toMs: number): number {
    let earlierMs = fromMs;
    let laterMs = toMs;
    while (laterMs - earlierMs > 1) {
      const middleMs = Math.floor((earlierMs + laterMs) / 2);
      if (this.dayAt(middleMs) >= day) laterMs = middleMs;
      else earlierMs = middleMs;
    }
    return laterMs;
  }

  /** What the zone's clocks show ahead of UTC. */
  private offsetMs(ms: number): number {
    const [month = 1, day = 1, year = 1970, hour = 0, minute = 0, second = 0] = (
      this.format.format(ms).match(DIGITS) ?? []
    ).map(Number);
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(ms / SECOND_MS) * SECOND_MS;
  }
}

function zoneFormat(timeZone: string): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat('en-US', {
      timeZone,
      calendar: 'gregory',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  } catch (error) {
    throw new LimiterError(
      'INVALID_POLICY',
      `timeZone is ${show(timeZone)}; expected a name of the IANA time zone database, such as 'Europe/Berlin' or 'UTC'.`,
      { cause: error },
    );
  }
}

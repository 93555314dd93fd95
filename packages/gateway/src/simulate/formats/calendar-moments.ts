import { isAt } from './interned-texts.ts';

const MONTHS: ReadonlyMap<string, number> = new Map(
  ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'].map((name, at) => [
    name,
    at,
  ]),
);
const WRITTEN = /^(\d\d)\/([A-Z][a-z]{2})\/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)$/;
/** Of every moment that is written so. */
export const CALENDAR_LENGTH: number = '10/Oct/2000:13:55:36 -0700'.length;

let last: { readonly text: string; readonly ms: number | undefined } = { text: '', ms: undefined };

/**
 * `10/Oct/2000:13:55:36 -0700` in milliseconds since 1970. Lines of the same second follow each other, so the last one
 * is remembered.
 */
export function calendarMoment(text: string): number | undefined {
  if (text !== last.text) last = { text, ms: read(text) };
  return last.ms;
}

/** The same of the bytes that begin here. */
export function calendarMomentAt(bytes: Buffer, from: number): number | undefined {
  const to = from + CALENDAR_LENGTH;
  return isAt(last.text, bytes, from, to) ? last.ms : calendarMoment(bytes.toString('latin1', from, to));
}

function read(text: string): number | undefined {
  const found = WRITTEN.exec(text);
  if (found === null) return undefined;
  const [, day, month = '', year, hour, minute, second, sign, zoneHours, zoneMinutes] = found;
  const monthAt = MONTHS.get(month);
  if (monthAt === undefined) return undefined;
  const utcMs = Date.UTC(Number(year), monthAt, Number(day), Number(hour), Number(minute), Number(second));
  // `Date.UTC` takes February 31 for a day in March. Only a leap second, 60, may carry over.
  const isPossible =
    Number(hour) < 24 &&
    Number(minute) < 60 &&
    Number(second) <= 60 &&
    new Date(Date.UTC(Number(year), monthAt, Number(day))).getUTCDate() === Number(day);
  if (!isPossible) return undefined;
  const zoneMs = (Number(zoneHours) * 60 + Number(zoneMinutes)) * 60_000;
  return sign === '-' ? utcMs + zoneMs : utcMs - zoneMs;
}

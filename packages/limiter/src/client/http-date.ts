// RFC 9110 §5.6.7: one format that servers send, and two that they once sent and that have to be understood.

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'] as const;
const DAY = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)';
const LONG_DAY = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day';
const MONTH = `(?<month>${MONTHS.join('|')})`;
const TIME = String.raw`(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)`;

const FORMATS = [
  new RegExp(String.raw`^${DAY}, (?<day>\d\d) ${MONTH} (?<year>\d{4}) ${TIME} GMT$`),
  new RegExp(String.raw`^${LONG_DAY}, (?<day>\d\d)-${MONTH}-(?<year>\d\d) ${TIME} GMT$`),
  new RegExp(String.raw`^${DAY} ${MONTH} (?<day>\d\d| \d) ${TIME} (?<year>\d{4})$`),
] as const;

const YEARS_AHEAD = 50;

/**
 * A date in milliseconds since 1970, or undefined for anything that is none. `nowMs` tells the century of a short year.
 */
export function parseHttpDate(text: string, nowMs: number): number | undefined {
  for (const format of FORMATS) {
    const fields = format.exec(text)?.groups;
    if (fields !== undefined) return toMs(fields, nowMs);
  }
  return undefined;
}

function toMs(fields: Readonly<Record<string, string>>, nowMs: number): number | undefined {
  const { day = '', month = '', year = '', hour = '', minute = '', second = '' } = fields;
  const monthIndex = MONTHS.findIndex((name) => name === month);
  // A leap second is read as the second after it.
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 60) return undefined;
  const fullYear = year.length === 2 ? withCentury(Number(year), nowMs) : Number(year);
  const date = new Date(0);
  // Not `Date.UTC`, which takes the year 99 for 1999.
  date.setUTCFullYear(fullYear, monthIndex, Number(day));
  if (date.getUTCMonth() !== monthIndex || date.getUTCDate() !== Number(day)) return undefined;
  return date.setUTCHours(Number(hour), Number(minute), Number(second));
}

/** A year that seems to be more than 50 years ahead is the last one in the past with these digits. */
function withCentury(year: number, nowMs: number): number {
  const thisYear = new Date(nowMs).getUTCFullYear();
  const candidate = thisYear - (thisYear % 100) + year;
  return candidate > thisYear + YEARS_AHEAD ? candidate - 100 : candidate;
}

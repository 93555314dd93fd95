/** A time that cannot be understood. */
export class UnusableOutage extends Error {}

const DAY_MS = 86_400_000;
const TIME_OF_DAY = /^([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?$/;
const DATE_AND_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/;

/**
 * Reads `12:00..12:05`, which is so on every day of the log (UTC), or `2026-11-18T12:00Z..2026-11-18T12:05Z`, which is
 * once. Throws `UnusableOutage`.
 */
export function outage(text: string): (atMs: number) => boolean {
  const [from = '', to = '', more] = text.split('..');
  if (more === undefined && DATE_AND_TIME.test(from) && DATE_AND_TIME.test(to)) {
    const [fromMs, toMs] = [Date.parse(from), Date.parse(to)];
    if (fromMs < toMs) return (atMs) => atMs >= fromMs && atMs < toMs;
  }
  const [fromMs, toMs] = [timeOfDay(from), timeOfDay(to)];
  if (more !== undefined || fromMs === undefined || toMs === undefined || fromMs === toMs) {
    throw new UnusableOutage(
      `"${text}" is no outage: write for example "12:00..12:05" for every day of the log (UTC), or "2026-11-18T12:00Z..2026-11-18T12:05Z"`,
    );
  }
  return (atMs) => {
    const ofDayMs = atMs % DAY_MS;
    // 23:55..00:05 is around midnight.
    return fromMs < toMs ? ofDayMs >= fromMs && ofDayMs < toMs : ofDayMs >= fromMs || ofDayMs < toMs;
  };
}

function timeOfDay(text: string): number | undefined {
  const [, hours, minutes, seconds = 0] = TIME_OF_DAY.exec(text) ?? [];
  return hours === undefined
    ? undefined
    : 1000 * (3600 * Number(hours) + 60 * Number(minutes) + Number(seconds));
}

// Numbers and times as people read them.

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** A rate or a count: `0`, `0.4`, `12`, `1,234`, `12.3K`. */
export function amount(value: number): string {
  if (value === 0) return '0';
  if (value < 0.05) return '<0.1';
  if (value < 10) return String(Math.round(value * 10) / 10);
  return value < 10_000 ? WHOLE.format(value) : COMPACT.format(value);
}

/** A rate that is read again every second: always as many places, so that it does not jump. */
export function rate(perSecond: number): string {
  if (perSecond >= 100 || perSecond === 0) return amount(perSecond);
  return perSecond < 0.05 ? '<0.1' : perSecond.toFixed(1);
}

/** A time between two moments: `0.4 ms`, `12 ms`, `1.2 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function span(ms: number): string {
  if (ms < 1) return ms === 0 ? '0 s' : `${Math.max(0.01, Math.round(ms * 100) / 100)} ms`;
  if (ms < 10) return `${Math.round(ms * 10) / 10} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${Math.round(seconds * 10) / 10} s`;
  return longSpan(Math.round(seconds));
}

function longSpan(seconds: number): string {
  const units: readonly (readonly [string, number])[] = [
    ['d', 86_400],
    ['h', 3600],
    ['min', 60],
    ['s', 1],
  ];
  const first = units.findIndex(([, length]) => seconds >= length);
  const [unit, length] = units[first] ?? ['s', 1];
  const next = units[first + 1];
  const whole = Math.floor(seconds / length);
  const rest = next === undefined ? 0 : Math.floor((seconds - whole * length) / next[1]);
  return rest === 0 || next === undefined ? `${whole} ${unit}` : `${whole} ${unit} ${rest} ${next[0]}`;
}

export function share(part: number, whole: number): string {
  if (whole === 0 || part === 0) return '0 %';
  const percent = (100 * part) / whole;
  return percent < 0.1 ? '<0.1 %' : `${percent < 10 ? Math.round(percent * 10) / 10 : Math.round(percent)} %`;
}

const TIME = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const DATE = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
});

/** The time of day; with the date if that is another day. */
export function moment(at: number): string {
  const isToday = new Date(at).toDateString() === new Date().toDateString();
  return (isToday ? TIME : DATE).format(at);
}

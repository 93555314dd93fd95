// Numbers, times and reasons as reports show them.

/** Why a request was refused, in words. */
export const REASONS: ReadonlyMap<string, string> = new Map([
  ['limits', 'a policy is used up'],
  ['denyList', 'on a deny list'],
  ['missingKey', 'no key: the log does not have the header or parameter that says who asks'],
  ['ambiguousPath', 'a path that can be read in two ways'],
  ['invalid', 'a path that the gateway refuses'],
]);

export function count(number: number): string {
  return number.toLocaleString('en-US');
}

export function share(part: number, whole: number): string {
  return whole === 0 ? '0%' : `${((100 * part) / whole).toFixed(3)}%`;
}

export function moment(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}

const SHOWN_KEY = 60;
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** Printable and of limited length, whatever the client sent. */
export function shownKey(key: string): string {
  const short = key.length > SHOWN_KEY ? `${key.slice(0, SHOWN_KEY)}...` : key;
  return short.replaceAll(UNPRINTABLE, '?');
}

/** The first column is words, the others are numbers or words of their own. */
export function textTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((name, column) =>
    Math.max(name.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) =>
        /^[\d,.%]+$/.test(rows[0]?.[column] ?? '')
          ? cell.padStart(widths[column] ?? 0)
          : cell.padEnd(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  return [line(head), ...rows.map(line)].join('\n');
}

import { LimiterError, show } from './errors.ts';

/** Options are an object, and none is misspelled. */
export function requireOptionNames(what: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new LimiterError(
      'INVALID_OPTION',
      `${what} are ${show(options)}; expected an object with ${known.join(', ')}, or nothing.`,
    );
  }
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw new LimiterError(
    'INVALID_OPTION',
    `${what} do not include ${show(unknown)}; accepted are ${known.join(', ')}: correct the spelling or leave it out.`,
  );
}

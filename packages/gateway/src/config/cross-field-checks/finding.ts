import type { Config } from '../config.ts';
import type { Path } from '../path.ts';

/** Settings that are right one by one and wrong together. */
export interface CrossFieldFinding {
  readonly severity: 'error' | 'warning';
  /** Where to look: the first of these that someone wrote. All of them are what it is about. */
  readonly paths: readonly [Path, ...Path[]];
  readonly message: string;
  readonly suggestion: string;
}

export type CrossFieldCheck = (config: Config) => readonly CrossFieldFinding[];

/** `found` where `wrong`, else nothing: so that a check reads as a list of rules. */
export function when(
  wrong: boolean,
  found: Omit<CrossFieldFinding, 'severity'>,
): readonly CrossFieldFinding[] {
  return wrong ? [{ severity: 'error', ...found }] : [];
}

export function warnWhen(
  odd: boolean,
  found: Omit<CrossFieldFinding, 'severity'>,
): readonly CrossFieldFinding[] {
  return odd ? [{ severity: 'warning', ...found }] : [];
}

/** The places of entries that equal an earlier one. */
export function repeatedAt(texts: readonly string[]): readonly number[] {
  return texts.flatMap((text, at) => (texts.indexOf(text) < at ? [at] : []));
}

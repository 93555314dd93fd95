// Turns what a schema of the admin API complains about into a sentence: which value, what it is, what is accepted.
import { z } from 'zod';
import { valueAt, type Path } from '../config/path.ts';
import { shown, shownName } from '../config/shown.ts';
import { nearest } from '../config/suggestion.ts';

type Issue = z.core.$ZodIssue;

interface Sent {
  /** Where it was sent. */
  readonly place: 'body' | 'query';
  readonly value: unknown;
  readonly schema: z.ZodType;
}

/** About the first of several issues: who corrects it sees the next. */
export function complaintOf({ place, value, schema }: Sent, [issue]: readonly Issue[]): string {
  if (issue === undefined) return `The ${place} cannot be used.`;
  const path = issue.path.map((part) => (typeof part === 'number' ? part : String(part)));
  if (issue.code === 'unrecognized_keys') return `The ${place} ${unknownKey(issue.keys[0] ?? '', schema)}`;
  const name = path.length === 0 ? `The ${place}` : `${path.join('.')} in the ${place}`;
  return `${name} ${predicate(issue, path, value)}.`;
}

function unknownKey(key: string, schema: z.ZodType): string {
  const known = schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
  const meant = nearest(key, known);
  const advice = meant === undefined ? `; expected some of ${known.join(', ')}.` : `. Did you mean ${meant}?`;
  return `has ${shownName(key)}, which is no number of a policy${advice}`;
}

const EXPECTED: Readonly<Record<string, string>> = {
  object: 'an object such as {"average": 100}',
  string: 'a duration as a text, such as "30s"',
  int: 'a whole number',
  number: 'a whole number',
};

/** Continues "the value ...". */
function predicate(issue: Issue, path: Path, sent: unknown): string {
  const value = valueAt(sent, path);
  switch (issue.code) {
    case 'invalid_type':
      return wrongKind(value, EXPECTED[issue.expected] ?? issue.expected);
    case 'too_small':
      return value === ''
        ? wrongKind(value, EXPECTED['string'] ?? '')
        : `is ${shown(value)}; expected at least ${Number(issue.minimum)}`;
    case 'too_big':
      return typeof value === 'string'
        ? `has ${value.length} characters; expected at most ${Number(issue.maximum)}`
        : `is ${shown(value)}; expected at most ${Number(issue.maximum)}`;
    case 'invalid_value':
      return `is ${shown(value)}; expected one of ${issue.values.map(String).join(', ')}`;
    default:
      return issue.message;
  }
}

function wrongKind(value: unknown, expected: string): string {
  if (value === undefined) return `is missing; expected ${expected}`;
  const isQuotedNumber = typeof value === 'string' && /^\d+$/.test(value);
  return `is ${inJson(value)}; expected ${expected}${isQuotedNumber ? ': write it without quotes' : ''}`;
}

/** In the words of JSON, not of the configuration. */
function inJson(value: unknown): string {
  if (value === null) return 'null';
  return typeof value === 'object' && !Array.isArray(value) ? 'an object' : shown(value);
}

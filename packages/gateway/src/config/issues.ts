// Turns what the schema complains about into sentences: which setting, what it is, what is accepted, what was meant.
import type { z } from 'zod';
import { configSchema } from './config.ts';
import { isTree, pathText, startsWith, valueAt, type Path } from './path.ts';
import { fieldsOf, schemasAt, shapeOf, wordsOf } from './schema-shape.ts';
import { SETTINGS } from './settings.ts';
import { shown, shownName } from './shown.ts';
import { nearest } from './suggestion.ts';

export interface Complaint {
  readonly path: Path;
  /** Whether the key is wrong, or its value. */
  readonly about: 'key' | 'value';
  readonly message: string;
  readonly suggestion: string | undefined;
}

type Issue = z.core.$ZodIssue;

export function complaintsOf(issues: readonly Issue[], tree: unknown): readonly Complaint[] {
  return issues.flatMap((issue) => complaintsOfIssue(issue, tree));
}

function complaintsOfIssue(issue: Issue, tree: unknown): readonly Complaint[] {
  const path = writtenPath(issue.path, tree);
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey([...path, key], tree));
  if (issue.code === 'invalid_union') return ofUnion(issue, path, tree);
  return [aboutValue(issue, path, tree)];
}

/** The schema turns one text into a list of one: in the file there is no `[0]`. */
function writtenPath(path: readonly PropertyKey[], tree: unknown): Path {
  const parts = path.map((part) => (typeof part === 'number' ? part : String(part)));
  const at = parts.findIndex(
    (part, index) => typeof part === 'number' && !Array.isArray(valueAt(tree, parts.slice(0, index))),
  );
  return at < 0 ? parts : parts.slice(0, at);
}

function unknownKey(path: Path, tree: unknown): Complaint {
  const parent = path.slice(0, -1);
  const name = String(path.at(-1));
  const known = schemasAt(configSchema, tree, parent).flatMap((schema) => fieldNames(schema));
  return {
    path,
    about: 'key',
    message: `${parent.length === 0 ? '' : `${pathText(parent)}: `}${shownName(name)} is no setting`,
    suggestion: meantSetting(name, parent, [...new Set(known)]),
  };
}

function fieldNames(schema: unknown): readonly string[] {
  return (fieldsOf(schema) ?? []).map(([field]) => field);
}

function meantSetting(name: string, parent: Path, known: readonly string[]): string {
  const here = nearest(name, known);
  if (here !== undefined) return `Did you mean ${here}?`;
  const elsewhere = SETTINGS.filter(({ keys }) => keys?.at(-1) === name && !isInPolicyOrRule(parent)).map(
    ({ path }) => path,
  );
  const sections = Object.keys(configSchema.shape).filter((section) => section === name);
  const places = [...sections, ...elsewhere].slice(0, 3);
  if (places.length > 0) return `Did you mean ${places.join(' or ')}?`;
  return known.length === 0 ? 'Remove it.' : `Known here: ${known.join(', ')}.`;
}

/** What does not belong to an algorithm or a rule belongs to another one, not to another section. */
function isInPolicyOrRule(path: Path): boolean {
  return startsWith(path, ['rate_limit', 'policies']) || startsWith(path, ['rate_limit', 'rules']);
}

function ofUnion(issue: z.core.$ZodIssueInvalidUnion, path: Path, tree: unknown): readonly Complaint[] {
  const value = valueAt(tree, path);
  // Where the words differ in one field, the issue is about that field and has no errors of variants.
  if (issue.errors.length === 0) return [wrongWord(path, value, tree)];
  const deepest = issue.errors.filter((errors) => !errors.some((error) => isAboutKind(error)));
  const [only] = deepest;
  if (only !== undefined && (deepest.length === 1 || isTree(value) || Array.isArray(value))) {
    return only.flatMap((error) =>
      complaintsOfIssue({ ...error, path: [...issue.path, ...error.path] }, tree),
    );
  }
  return [wrongWord(path, value, tree)];
}

/** Not even of the kind that this variant is: it was not meant. */
function isAboutKind({ code, path }: Issue): boolean {
  return path.length === 0 && (code === 'invalid_type' || code === 'invalid_value');
}

function wrongWord(path: Path, value: unknown, tree: unknown): Complaint {
  // A wrong word agrees with no variant; without the tree all of them count.
  const schemas = schemasAt(configSchema, path.length === 0 ? tree : undefined, path);
  const complaint = wordComplaint(path, value, [...new Set(schemas.flatMap((schema) => wordsOf(schema)))]);
  const orSection = schemas.some((schema) => fieldsOf(schema) !== undefined)
    ? ', or a section with a type'
    : '';
  return { ...complaint, message: complaint.message + orSection };
}

function wordComplaint(path: Path, value: unknown, words: readonly string[]): Complaint {
  const name = pathText(path);
  if (value === undefined) {
    const suggestion =
      words.length === 1
        ? `Write "${String(path.at(-1))}: ${words.join('')}".`
        : `Choose one of ${words.join(', ')}.`;
    return { path, about: 'value', message: `${name} is missing`, suggestion };
  }
  const quoted = words.find((word) => word === value || JSON.stringify(value) === word);
  const meant = quoted ?? (typeof value === 'string' ? nearest(value, words) : undefined);
  const suggestion =
    quoted !== undefined && typeof value !== 'string'
      ? `Put quotes around it: "${quoted}".`
      : meant === undefined
        ? undefined
        : `Did you mean ${meant}?`;
  return {
    path,
    about: 'value',
    message: `${name} is ${shown(value)}; ${words.length === 1 ? 'expected' : 'choose one of'} ${words.join(', ')}`,
    suggestion,
  };
}

function aboutValue(issue: Issue, path: Path, tree: unknown): Complaint {
  const value = valueAt(tree, path);
  const shape = shapeOf(schemasAt(configSchema, tree, path)[0]);
  const name = pathText(path) || 'the configuration';
  if (issue.code === 'invalid_value') {
    const complaint = wordComplaint(path, value, issue.values.map(String));
    return value === undefined && shape.description !== undefined
      ? { ...complaint, suggestion: `${complaint.suggestion ?? ''} ${shape.description}` }
      : complaint;
  }
  const about = issue.code === 'invalid_key' ? 'key' : 'value';
  const complaint = predicate(issue, value);
  const hidden = shape.secret && complaint.includes(shown(value));
  return {
    path,
    about,
    message: `${name} ${hidden ? 'has a value that cannot be used' : complaint}`,
    suggestion: value === undefined ? shape.description : undefined,
  };
}

const KINDS: Readonly<Record<string, string>> = {
  object: 'a section with settings',
  record: 'a map by name',
  array: 'a list',
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
};

/** Continues "the setting ...". */
function predicate(issue: Issue, value: unknown): string {
  if (value === undefined && issue.code === 'invalid_type') return 'is missing';
  switch (issue.code) {
    case 'invalid_type':
      return wrongKind(KINDS[issue.expected] ?? issue.expected, value);
    case 'too_small':
      return outOfRange(value, 'at least', Number(issue.minimum));
    case 'too_big':
      return outOfRange(value, 'at most', Number(issue.maximum));
    case 'invalid_key':
      return `cannot be a name: it ${issue.issues[0]?.message ?? 'has other characters'}`;
    case 'custom':
    case 'invalid_format':
      return issue.message;
    default:
      return `is ${shown(value)}, which is not accepted`;
  }
}

function wrongKind(expected: string, value: unknown): string {
  if (value === null) return `is empty; give it ${expected}, or remove the line`;
  // The value itself may be a password that looks like a number.
  const given =
    typeof value === 'number' && expected !== 'a text'
      ? String(value)
      : typeof value === 'string'
        ? 'a text'
        : typeof value === 'object'
          ? shown(value)
          : `a ${typeof value}`;
  const advice = expected === 'a text' && typeof value !== 'object' ? ': put quotes around it' : '';
  return `is ${given}; expected ${expected}${advice}`;
}

function outOfRange(value: unknown, side: string, bound: number): string {
  if (typeof value === 'string') return `has ${value.length} characters; expected ${side} ${bound}`;
  if (Array.isArray(value)) return `has ${value.length} entries; expected ${side} ${bound}`;
  return `is ${shown(value)}; expected ${side} ${bound}`;
}

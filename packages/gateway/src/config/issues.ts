// Turns what the schema complains about into sentences: which setting, what it is, what is accepted, what was meant.
import { z } from 'zod';
import { configSchema } from './config.ts';
import {
  expectedOf,
  isBoolean,
  isNumberOrSwitch,
  elementOf,
  fieldsOf,
  schemasAt,
  settingsAt,
  shapeOf,
  wordsOf,
} from './settings.ts';
import { isTree, pathText, valueAt, withValueAt, type Path } from './path.ts';
import { shown } from './shown.ts';
import { nearest } from './suggestion.ts';
import { unknownSetting } from './unknown-setting.ts';

/**
 * What the schema refuses. It is put into words only when someone reads them: looking for what was meant takes time.
 */
export interface FoundIssue {
  readonly path: Path;
  /** Whether the key is wrong, or its value. */
  readonly about: 'key' | 'value';
  /** Whether the rest of its section depends on the word that is wrong: `type`, `algorithm`. */
  readonly choosesVariant?: true;
  readonly describe: () => IssueText;
}

interface IssueText {
  readonly message: string;
  readonly suggestion: string | undefined;
}

type SchemaIssue = z.core.$ZodIssue;

export function settingIssues(issues: readonly SchemaIssue[], tree: unknown): readonly FoundIssue[] {
  const all = issues.flatMap((issue) => issuesOf(issue, tree));
  const words = all.filter(({ choosesVariant }) => choosesVariant).slice(0, MAX_SECTIONS_READ_AGAIN);
  return [...all, ...words.flatMap(({ path }) => besideWrongWord(path, tree))];
}

/** Nobody reads about more mistakes at once, and reading a section again takes time. */
const MAX_SECTIONS_READ_AGAIN = 100;

function issuesOf(issue: SchemaIssue, tree: unknown): readonly FoundIssue[] {
  const path = writtenPath(issue.path, tree);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => found([...path, key], 'key', (unknown) => unknownSetting(unknown, tree)));
  }
  if (issue.code === 'invalid_union') return ofUnion(issue, path, tree);
  if (isAboutTextForList(issue, path, tree)) return [];
  const about = issue.code === 'invalid_key' ? 'key' : 'value';
  return [found(path, about, () => wrongValue(issue, path, tree))];
}

function found(path: Path, about: FoundIssue['about'], describe: (path: Path) => IssueText): FoundIssue {
  return { path, about, describe: () => describe(path) };
}

/**
 * The schema counts the characters of a string, too, where a list was expected. That it is not a list is said already.
 */
function isAboutTextForList({ code }: SchemaIssue, path: Path, tree: unknown): boolean {
  if (code !== 'too_big' && code !== 'too_small') return false;
  const [setting] = settingsAt(configSchema, tree, path);
  return typeof valueAt(tree, path) === 'string' && elementOf(setting)?.part === '[]';
}

/** The schema turns one string into a list of one: in the file there is no `[0]`. */
function writtenPath(path: readonly PropertyKey[], tree: unknown): Path {
  const parts = path.map((part) => (typeof part === 'number' ? part : String(part)));
  const at = parts.findIndex(
    (part, index) => typeof part === 'number' && !Array.isArray(valueAt(tree, parts.slice(0, index))),
  );
  return at < 0 ? parts : parts.slice(0, at);
}

function ofUnion(issue: z.core.$ZodIssueInvalidUnion, path: Path, tree: unknown): readonly FoundIssue[] {
  const value = valueAt(tree, path);
  // Where the words differ in one field, the issue is about that field and has no errors of variants.
  if (issue.errors.length === 0) {
    return [{ ...found(path, 'value', () => wrongWord(path, value, tree)), choosesVariant: true }];
  }
  const deepest = issue.errors.filter((errors) => !errors.some((error) => isAboutKind(error)));
  const [only] = deepest;
  if (only !== undefined && (deepest.length === 1 || isTree(value) || Array.isArray(value))) {
    return only.flatMap((error) => issuesOf({ ...error, path: [...issue.path, ...error.path] }, tree));
  }
  return [found(path, 'value', () => wrongWord(path, value, tree))];
}

/**
 * What else is wrong in a section whose word (`type`, `algorithm`) is: it is read as the word that was probably meant.
 * If there is none, what no variant knows is wrong in any case.
 */
function besideWrongWord(path: Path, tree: unknown): readonly FoundIssue[] {
  const parent = path.slice(0, -1);
  const section = valueAt(tree, parent);
  if (!isTree(section)) return [];
  const word = valueAt(tree, path);
  const meant = typeof word === 'string' ? nearest(word, wordsOfAll(schemasOfWord(path, tree))) : undefined;
  if (meant === undefined) {
    // An empty word would stand for the one that holds without any; this agrees with no variant.
    const wordless = withValueAt(tree, path, '');
    const variants = schemasAt(configSchema, wordless, parent);
    const known = new Set(variants.flatMap((schema) => (fieldsOf(schema) ?? []).map(([name]) => name)));
    return Object.keys(section)
      .filter((key) => !known.has(key))
      .map((key) => found([...parent, key], 'key', (unknown) => unknownSetting(unknown, wordless)));
  }
  const corrected = withValueAt(tree, path, meant);
  const [schema] = settingsAt(configSchema, tree, parent);
  if (!(schema instanceof z.ZodType)) return [];
  const parsed = schema.safeParse(valueAt(corrected, parent), { jitless: true });
  const issues = parsed.success ? [] : parsed.error.issues;
  return issues.flatMap((issue) => issuesOf({ ...issue, path: [...parent, ...issue.path] }, corrected));
}

/** Not even of the kind that this variant is: it was not meant. */
function isAboutKind({ code, path }: SchemaIssue): boolean {
  return path.length === 0 && (code === 'invalid_type' || code === 'invalid_value');
}

function wrongWord(path: Path, value: unknown, tree: unknown): IssueText {
  const schemas = schemasOfWord(path, tree);
  const named = wordsOfAll(schemas);
  if (named.length === 0) return wrongForm(path, value, tree);
  const words = schemas.some(isBoolean) ? ['true', 'false', ...named] : named;
  const text = notOneOf(path, value, words);
  const orSection = schemas.some((schema) => fieldsOf(schema) !== undefined)
    ? ', or a section with a type'
    : '';
  return { ...text, message: text.message + orSection };
}

/** A wrong word agrees with no variant; without the tree all of them count. */
function schemasOfWord(path: Path, tree: unknown): readonly unknown[] {
  return schemasAt(configSchema, path.length === 0 ? tree : undefined, path);
}

function wordsOfAll(schemas: readonly unknown[]): readonly string[] {
  return [...new Set(schemas.flatMap((schema) => wordsOf(schema)))];
}

/** About what can be written in several ways, none of which is a word: a duration, a size, a string or a list. */
function wrongForm(path: Path, value: unknown, tree: unknown): IssueText {
  const [setting] = settingsAt(configSchema, tree, path);
  const { description, example } = shapeOf(setting);
  const name = pathText(path);
  const written = example === undefined ? '' : `Write "${String(path.at(-1))}: ${example}", for example. `;
  const message =
    value === undefined
      ? `${name} is missing`
      : value === null
        ? `${name} is empty; give it ${expectedOf(setting)}, or remove the line`
        : `${name} is ${shown(value)}; expected ${expectedOf(setting)}`;
  const suggestion = value === undefined ? `${written}${description ?? ''}` : undefined;
  return { message, suggestion };
}

function notOneOf(path: Path, value: unknown, words: readonly string[]): IssueText {
  const name = pathText(path);
  if (value === undefined) {
    const suggestion =
      words.length === 1
        ? `Write "${String(path.at(-1))}: ${words.join('')}".`
        : `Choose one of ${words.join(', ')}.`;
    return { message: `${name} is missing`, suggestion };
  }
  const quoted = words.find((word) => word === value || JSON.stringify(value) === word);
  const meant = quoted ?? (typeof value === 'string' ? nearest(value, words) : undefined);
  const suggestion =
    quoted !== undefined
      ? typeof value === 'string'
        ? 'Leave the quotes out.'
        : `Put quotes around it: "${quoted}".`
      : meant === undefined
        ? undefined
        : `Did you mean ${meant}?`;
  return {
    message: `${name} is ${shown(value)}; ${words.length === 1 ? 'expected' : 'choose one of'} ${words.join(', ')}`,
    suggestion,
  };
}

function wrongValue(issue: SchemaIssue, path: Path, tree: unknown): IssueText {
  const value = valueAt(tree, path);
  const shape = shapeOf(schemasAt(configSchema, tree, path)[0]);
  const name = pathText(path) || 'the configuration';
  if (issue.code === 'invalid_value') {
    const text = notOneOf(path, value, issue.values.map(String));
    return value === undefined && shape.description !== undefined
      ? { ...text, suggestion: `${text.suggestion ?? ''} ${shape.description}` }
      : text;
  }
  const complaint = predicate(issue, value, settingsAt(configSchema, tree, path)[0]);
  const hidden = shape.secret && complaint.includes(shown(value));
  return {
    message: `${name} ${hidden ? 'has a value that cannot be used' : complaint}`,
    suggestion: value === undefined ? shape.description : undefined,
  };
}

/** Continues "the setting ...". */
function predicate(issue: SchemaIssue, value: unknown, setting: unknown): string {
  if (value === undefined && issue.code === 'invalid_type') return 'is missing';
  switch (issue.code) {
    case 'invalid_type':
      return wrongKind(value, setting, issue.expected);
    case 'too_small':
      return outOfRange(value, 'at least', Number(issue.minimum));
    case 'too_big':
      return outOfRange(value, 'at most', Number(issue.maximum));
    case 'invalid_key':
      return `is not a valid name: it ${issue.issues[0]?.message ?? 'has other characters'}`;
    case 'custom':
    case 'invalid_format':
      return issue.message;
    default:
      return `is ${shown(value)}, which is not accepted`;
  }
}

function wrongKind(value: unknown, setting: unknown, kind: string): string {
  const expected = expectedOf(setting);
  if (value === null) return `is empty; give it ${expected}, or remove the line`;
  const given = isHarmless(value, setting, kind) ? shown(value) : `a ${typeof value}`;
  return `is ${given}; expected ${expected}${adviceFor(value, kind)}`;
}

/** What was written may be a password, or a key that is one: shown where the setting can be neither, nor hold one. */
function isHarmless(value: unknown, setting: unknown, kind: string): boolean {
  if (typeof value === 'object' || (typeof value === 'number' && kind !== 'string')) return true;
  const { kind: form, secret, schema } = shapeOf(elementOf(setting)?.schema ?? setting);
  if (secret) return false;
  return form !== undefined || wordsOf(schema).length > 0 || isNumberOrSwitch(schema);
}

/** What would make it right, where that is the same for all values. */
function adviceFor(value: unknown, kind: string): string {
  if (typeof value === 'object') return '';
  if (kind === 'string') return ': put quotes around it';
  if (kind === 'array' && typeof value === 'string') return ': put [ ] around it';
  if (typeof value !== 'string') return '';
  const isNumber = (kind === 'number' || kind === 'int') && /^\d+$/.test(value);
  const isSwitch = kind === 'boolean' && /^(?:true|false)$/.test(value);
  return isNumber || isSwitch ? ': leave the quotes out' : '';
}

function outOfRange(value: unknown, side: string, bound: number): string {
  if (typeof value === 'string') return `has ${value.length} characters; expected ${side} ${bound}`;
  if (Array.isArray(value)) return `has ${value.length} entries; expected ${side} ${bound}`;
  return `is ${shown(value)}; expected ${side} ${bound}`;
}

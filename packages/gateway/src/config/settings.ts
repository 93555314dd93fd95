import { z } from 'zod';
import { configSchema } from './config.ts';
import { isTree, valueAt, type Path } from './path.ts';

/** One line of the reference: everything about a setting that follows from the schema. */
export interface Setting {
  /** `server.address`, `rate_limit.rules[].cost`, `rate_limit.policies.<name>.average` */
  readonly path: string;
  /** The same without lists and names, for settings that have a variable. */
  readonly keys: readonly string[] | undefined;
  /** Its environment variable; what is inside lists and maps has none. */
  readonly env: string | undefined;
  readonly kind: string;
  readonly fallback: unknown;
  readonly required: boolean;
  readonly secret: boolean;
  readonly description: string;
}

const ENV_PREFIX = 'SPILLGATE_';
const FIRST_KEY = 'rate_limit.key_strategy';

function envName(keys: readonly string[]): string {
  return ENV_PREFIX + keys.join('_').toUpperCase();
}

/** Every setting, in the order of the schema. */
export const SETTINGS: readonly Setting[] = settingsOf(configSchema, { path: '', keys: [] });

interface SettingPlace {
  readonly path: string;
  /** Undefined inside a list or a map. */
  readonly keys: readonly string[] | undefined;
}

function settingsOf(schema: unknown, place: SettingPlace): readonly Setting[] {
  return (fieldsOf(schema) ?? []).flatMap(([name, field]) => {
    const path = place.path === '' ? name : `${place.path}.${name}`;
    const keys = place.keys === undefined ? undefined : [...place.keys, name];
    if (fieldsOf(field) !== undefined) return settingsOf(field, { path, keys });
    return [settingOf(field, { path, keys }), ...insideOf(field, path)];
  });
}

function settingOf(schema: unknown, { path, keys }: SettingPlace): Setting {
  const { fallback, required, secret, description = '' } = shapeOf(schema);
  const env = keys === undefined ? undefined : envName(keys);
  return { path, keys, env, kind: kindOf(schema), fallback, required, secret, description };
}

/** The settings within a list, a map or the variants of a union; equal ones of several variants once. */
function insideOf(schema: unknown, path: string): readonly Setting[] {
  const element = elementOf(schema);
  const inner = element === undefined ? schema : element.schema;
  const below = element === undefined ? path : path + (element.part === '[]' ? '[]' : '.<name>');
  // A key strategy says everything about itself where it is used first.
  if (shapeOf(schema).kind === 'key' && path !== FIRST_KEY) return [];
  const found = variantsOf(inner).flatMap((variant) => settingsOf(variant, { path: below, keys: undefined }));
  const byPath = new Map<string, Setting>();
  for (const setting of found) {
    const known = byPath.get(setting.path);
    byPath.set(setting.path, known === undefined ? setting : merged(known, setting));
  }
  return [...byPath.values()];
}

function merged(a: Setting, b: Setting): Setting {
  const kinds = [...new Set([...a.kind.split(', '), ...b.kind.split(', ')])];
  return { ...a, kind: kinds.join(', '), required: a.required && b.required };
}

function kindOf(schema: unknown): string {
  const shape = shapeOf(schema);
  const words = wordsOf(schema);
  const { schema: inner } = shape;
  if (shape.kind !== undefined) return shape.kind;
  if (words.length > 0) return words.map((word) => `\`${word}\``).join(', ');
  const element = elementOf(schema);
  if (element?.part === '<name>') return 'map';
  if (element !== undefined) return listKind(element.schema);
  const numbers = numbersOf(inner);
  if (numbers !== undefined) return `${numbers.whole ? 'integer' : 'number'}${numbers.range}`;
  if (inner instanceof z.ZodBoolean) return '`true`, `false`';
  return 'text';
}

function listKind(element: unknown): string {
  const words = wordsOf(element);
  if (words.length > 0) return `list of ${words.map((word) => `\`${word}\``).join(', ')}`;
  if (fieldsOf(element) !== undefined || variantsOf(element).length > 1) return 'list';
  const kind = kindOf(element);
  return kind === 'text' ? 'list of texts' : `list: ${kind}`;
}

/** The JSON Schema (2020-12) of a configuration file, for editors. */
export function jsonSchema(): Readonly<Record<string, unknown>> {
  return {
    title: 'Spillgate gateway configuration',
    ...z.toJSONSchema(configSchema, {
      io: 'input',
      override: ({ jsonSchema: schema }) => {
        if (schema['secret'] === true) schema.writeOnly = true;
        // Our own notes for the reference page.
        delete schema['secret'];
        delete schema['kind'];
      },
    }),
  };
}

// Reads the schema itself: which fields there are, of what kind, and what they say about themselves.
export interface Shape {
  /** Without `optional`, defaults and codecs around it. */
  readonly schema: unknown;
  /** What is used when nothing is given; undefined if there is nothing. */
  readonly fallback: unknown;
  readonly required: boolean;
  readonly description: string | undefined;
  readonly kind: string | undefined;
  /** How it may be written. */
  readonly example: string | undefined;
  readonly secret: boolean;
}

/** Takes the wrappers off. What an outer one says counts more. */
export function shapeOf(schema: unknown): Shape {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodExactOptional) {
    return described(schema, { ...shapeOf(schema.unwrap()), required: false });
  }
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    return described(schema, {
      ...shapeOf(schema.unwrap()),
      required: false,
      fallback: schema.def.defaultValue,
    });
  }
  if (schema instanceof z.ZodPipe) return described(schema, shapeOf(schema.in));
  return described(schema, {
    schema,
    fallback: undefined,
    required: true,
    description: undefined,
    kind: undefined,
    example: undefined,
    secret: false,
  });
}

function described(schema: unknown, inner: Shape): Shape {
  if (!(schema instanceof z.ZodType)) return inner;
  const { description, kind, secret, examples } = schema.meta() ?? {};
  const example: unknown = Array.isArray(examples) ? examples[0] : undefined;
  return {
    ...inner,
    description: description ?? inner.description,
    kind: typeof kind === 'string' ? kind : inner.kind,
    example: typeof example === 'string' ? example : inner.example,
    secret: secret === true || inner.secret,
  };
}

/** The fields of a section, or undefined if it is none. */
export function fieldsOf(schema: unknown): readonly (readonly [string, unknown])[] | undefined {
  const { schema: inner } = shapeOf(schema);
  return inner instanceof z.ZodObject ? Object.entries(inner.shape) : undefined;
}

/** The alternatives of a union, one level deep. */
function variantsOf(schema: unknown): readonly unknown[] {
  const { schema: inner } = shapeOf(schema);
  return inner instanceof z.ZodUnion ? inner.options.flatMap(variantsOf) : [inner];
}

/** What a list or a map by name holds. */
export function elementOf(
  schema: unknown,
): { readonly part: '[]' | '<name>'; readonly schema: unknown } | undefined {
  const { schema: inner } = shapeOf(schema);
  if (inner instanceof z.ZodArray) return { part: '[]', schema: inner.element };
  return inner instanceof z.ZodRecord ? { part: '<name>', schema: inner.valueType } : undefined;
}

/** The words a setting may be. */
export function wordsOf(schema: unknown): readonly string[] {
  return variantsOf(schema).flatMap((variant) => {
    if (variant instanceof z.ZodEnum) return variant.options.map(String);
    return variant instanceof z.ZodLiteral ? [...variant.values].map(String) : [];
  });
}

/** The schemas that may describe the value at a path; `tree` decides between variants. */
export function schemasAt(root: unknown, tree: unknown, path: Path): readonly unknown[] {
  const value = valueAt(tree, path);
  return settingsAt(root, tree, path).flatMap((schema) => fitting(schema, value));
}

/** The same, but the last one with all its variants, and with what it says about itself. */
export function settingsAt(root: unknown, tree: unknown, path: Path): readonly unknown[] {
  const part = path.at(-1);
  if (part === undefined) return [root];
  return schemasAt(root, tree, path.slice(0, -1)).flatMap((schema) => {
    const field = fieldsOf(schema)?.find(([name]) => name === part)?.[1] ?? elementOf(schema)?.schema;
    return field === undefined ? [] : [field];
  });
}

/** The variants whose literal fields (`type`, `algorithm`) agree with a value; all, if it says nothing. */
function fitting(schema: unknown, value: unknown): readonly unknown[] {
  const variants = variantsOf(schema);
  if (variants.length === 1) return [schema];
  const agreeing = variants.filter(
    (variant) =>
      isTree(value) &&
      fieldsOf(variant)?.every(([name, field]) => {
        const shape = shapeOf(field);
        if (!(shape.schema instanceof z.ZodLiteral)) return true;
        const given = value[name] ?? shape.fallback;
        return [...shape.schema.values].some((literal) => literal === given);
      }) === true,
  );
  return agreeing.length > 0 ? agreeing : variants;
}

// What a setting takes, in words that continue "expected ...".
export function expectedOf(setting: unknown): string {
  const { kind, example, schema } = shapeOf(setting);
  if (kind !== undefined && example !== undefined) return `a ${kind}, such as "${example}"`;
  const variants = variantsOf(schema);
  const sections = variants.filter((variant) => fieldsOf(variant) !== undefined);
  const forms = new Set(variants.map((variant) => formOf(variant, sections.length === 1)));
  return [...forms].join(' or ');
}

/** Enough to see what kind of section it is. */
const NAMED_FIELDS = 4;

function formOf(variant: unknown, namesFields: boolean): string {
  const { schema } = shapeOf(variant);
  const numbers = numbersOf(schema);
  if (numbers !== undefined) return `a ${numbers.whole ? 'whole ' : ''}number${numbers.range}`;
  if (schema instanceof z.ZodBoolean) return 'true or false';
  const fields = fieldsOf(schema);
  if (fields !== undefined) return namesFields ? sectionWith(fields.map(([name]) => name)) : 'a section';
  const element = elementOf(schema);
  if (element !== undefined) return element.part === '[]' ? 'a list' : 'a map from names to sections';
  return 'a string';
}

function sectionWith(names: readonly string[]): string {
  const shown = names.slice(0, NAMED_FIELDS).join(', ');
  return names.length > NAMED_FIELDS ? `a section (${shown}, ...)` : `a section (${shown})`;
}

export function isBoolean(schema: unknown): boolean {
  return schema instanceof z.ZodBoolean;
}

export function isNumberOrSwitch(schema: unknown): boolean {
  return schema instanceof z.ZodNumber || isBoolean(schema);
}

/** Whether numbers have to be whole, and `, 1 to 64`; undefined if it is not a number. */
function numbersOf(schema: unknown): { readonly whole: boolean; readonly range: string } | undefined {
  if (!(schema instanceof z.ZodNumber)) return undefined;
  const { minValue, maxValue, format } = schema;
  const from = minValue !== null && minValue > Number.MIN_SAFE_INTEGER ? minValue : undefined;
  const to = maxValue !== null && maxValue < Number.MAX_SAFE_INTEGER ? maxValue : undefined;
  const range = from === undefined ? '' : to === undefined ? `, ${from} or more` : `, ${from} to ${to}`;
  return { whole: format === 'safeint', range };
}

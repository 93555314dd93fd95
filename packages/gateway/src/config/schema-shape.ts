// Reads the schema itself: which fields there are, of what kind, and what they say about themselves.
import { isTree, valueAt, type Path } from './path.ts';
import { z } from 'zod';

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
export function variantsOf(schema: unknown): readonly unknown[] {
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
  const forms = new Set(variantsOf(schema).map(formOf));
  return [...forms].join(' or ');
}

function formOf(variant: unknown): string {
  const { schema } = shapeOf(variant);
  const numbers = numbersOf(schema);
  if (numbers !== undefined) return `a ${numbers.whole ? 'whole ' : ''}number${numbers.range}`;
  if (schema instanceof z.ZodBoolean) return 'true or false';
  if (fieldsOf(schema) !== undefined) return 'a section';
  const element = elementOf(schema);
  if (element !== undefined) return element.part === '[]' ? 'a list' : 'a map from names to sections';
  return 'a string';
}

export function isNumberOrSwitch(schema: unknown): boolean {
  return schema instanceof z.ZodNumber || schema instanceof z.ZodBoolean;
}

/** Whether numbers have to be whole, and `, 1 to 64`; undefined if it is not a number. */
export function numbersOf(schema: unknown): { readonly whole: boolean; readonly range: string } | undefined {
  if (!(schema instanceof z.ZodNumber)) return undefined;
  const { minValue, maxValue, format } = schema;
  const from = minValue !== null && minValue > Number.MIN_SAFE_INTEGER ? minValue : undefined;
  const to = maxValue !== null && maxValue < Number.MAX_SAFE_INTEGER ? maxValue : undefined;
  const range = from === undefined ? '' : to === undefined ? `, ${from} or more` : `, ${from} to ${to}`;
  return { whole: format === 'safeint', range };
}

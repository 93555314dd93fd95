// Reads the schema itself: which fields there are, of what kind, and what they say about themselves.
import { z } from 'zod';
import { isTree, type Path } from './path.ts';

export interface Shape {
  /** Without `optional`, defaults and codecs around it. */
  readonly schema: unknown;
  /** What is used when nothing is given; undefined if there is nothing. */
  readonly fallback: unknown;
  readonly required: boolean;
  readonly description: string | undefined;
  readonly kind: string | undefined;
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
    secret: false,
  });
}

function described(schema: unknown, inner: Shape): Shape {
  if (!(schema instanceof z.ZodType)) return inner;
  const { description, kind, secret } = schema.meta() ?? {};
  return {
    ...inner,
    description: description ?? inner.description,
    kind: typeof kind === 'string' ? kind : inner.kind,
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
  let value = tree;
  let candidates = fitting(root, value);
  for (const part of path) {
    value = isTree(value) || Array.isArray(value) ? Reflect.get(value, part) : undefined;
    candidates = candidates.flatMap((schema) => {
      const field = fieldsOf(schema)?.find(([name]) => name === part)?.[1];
      const next = field ?? elementOf(schema)?.schema;
      return next === undefined ? [] : fitting(next, value);
    });
  }
  return candidates;
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

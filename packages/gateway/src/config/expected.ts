// What a setting takes, in words that continue "expected ...".
import { z } from 'zod';
import { elementOf, fieldsOf, shapeOf, variantsOf } from './schema-shape.ts';

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
  if (fieldsOf(schema) !== undefined) return 'a section with settings';
  const element = elementOf(schema);
  if (element !== undefined) return element.part === '[]' ? 'a list' : 'a map by name';
  return 'a text';
}

export function isNumberOrSwitch(schema: unknown): boolean {
  return schema instanceof z.ZodNumber || schema instanceof z.ZodBoolean;
}

/** Whether numbers have to be whole, and `, 1 to 64`; undefined for what is no number. */
export function numbersOf(schema: unknown): { readonly whole: boolean; readonly range: string } | undefined {
  if (!(schema instanceof z.ZodNumber)) return undefined;
  const { minValue, maxValue, format } = schema;
  const from = minValue !== null && minValue > Number.MIN_SAFE_INTEGER ? minValue : undefined;
  const to = maxValue !== null && maxValue < Number.MAX_SAFE_INTEGER ? maxValue : undefined;
  const range = from === undefined ? '' : to === undefined ? `, ${from} or more` : `, ${from} to ${to}`;
  return { whole: format === 'safeint', range };
}

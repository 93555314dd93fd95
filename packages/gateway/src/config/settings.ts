import { z } from 'zod';
import { configSchema } from './config.ts';
import { numbersOf, elementOf, fieldsOf, shapeOf, variantsOf, wordsOf } from './schema-shape.ts';

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

import { MESSAGES } from './definition.ts';

const INTEGERS = new Set(
  MESSAGES.flatMap(({ fields }) => fields)
    .filter(({ type }) => type === 'int64' || type === 'int32')
    .map(({ name }) => name),
);

const SNAKE_NAMES: ReadonlyMap<string, string> = new Map(
  MESSAGES.flatMap(({ fields }) => fields).map(({ name }) => [
    name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
    name,
  ]),
);

/**
 * An answer that came by way of protobuf, as HTTP would have said it: documented names, and numbers as numbers (protobuf's JSON
 * writes 64-bit ones as text). A zero that is left out is a zero, and what is empty was not set.
 */
export function fromProtoJson(value: unknown): unknown {
  const answer = renamed(value);
  if (!isRecord(answer)) return answer;
  // Services of before write no zero: with a period it is one, without it the answer says nothing at all.
  const saysNothing =
    answer['average'] === undefined && answer['policies'] === undefined && answer['quota'] === undefined;
  return saysNothing && answer['period'] !== undefined ? { ...answer, average: 0 } : answer;
}

function renamed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(renamed);
  if (!isRecord(value)) return value;
  const fields = Object.entries(value)
    .map(([name, field]): [string, unknown] => {
      const snake = SNAKE_NAMES.get(name) ?? name;
      return [snake, INTEGERS.has(snake) ? asNumber(field) : renamed(field)];
    })
    .filter(([name, field]) => !isUnset(name, field));
  return Object.fromEntries(fields);
}

/** What protobuf cannot tell from "not set". */
function isUnset(name: string, field: unknown): boolean {
  if (field === '' || field === 'FAILURE_POLICY_UNSPECIFIED' || field === null) return true;
  if (Array.isArray(field)) return field.length === 0;
  return field === 0 && (name === 'burst' || name === 'failure_code');
}

function asNumber(value: unknown): unknown {
  return typeof value === 'string' && /^-?\d{1,19}$/.test(value) ? Number(value) : value;
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

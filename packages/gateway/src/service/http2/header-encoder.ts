// Writes headers for HTTP/2 (HPACK, RFC 7541), without a table: what is sent always can be written beforehand.
import { STATIC_FIELDS } from './hpack-tables.ts';

const STATUS = new Map(
  STATIC_FIELDS.flatMap(([name, value], at) =>
    name === ':status' ? [[Number(value), at + 1] as const] : [],
  ),
);
/** The first of each name. */
const NAMES = new Map(STATIC_FIELDS.map(([name], at) => [name, at + 1] as const).toReversed());
const LITERAL_BITS = 4;
const TEXT_BITS = 7;

export type HeaderPairs = readonly (readonly [name: string, value: string])[];

/** Names in small letters. */
export function encodeHeaders(pairs: HeaderPairs, status?: number): Buffer {
  const bytes: number[] = [];
  if (status !== undefined) {
    const index = STATUS.get(status);
    if (index === undefined) literal(bytes, ':status', String(status));
    else bytes.push(0x80 + index);
  }
  for (const [name, value] of pairs) literal(bytes, name, value);
  return Buffer.from(bytes);
}

function literal(bytes: number[], name: string, value: string): void {
  const index = NAMES.get(name) ?? 0;
  integer(bytes, index, LITERAL_BITS);
  if (index === 0) text(bytes, name);
  text(bytes, value);
}

function text(bytes: number[], value: string): void {
  integer(bytes, value.length, TEXT_BITS);
  for (let at = 0; at < value.length; at += 1) bytes.push(value.charCodeAt(at) & 0xff);
}

function integer(bytes: number[], value: number, bits: number): void {
  const most = 2 ** bits - 1;
  if (value < most) {
    bytes.push(value);
    return;
  }
  bytes.push(most);
  let rest = value - most;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) + 0x80);
  bytes.push(rest);
}

/** The fields of a line that is a JSON object; undefined for any other. */
export function fieldsOf(line: string): ReadonlyMap<string, unknown> | undefined {
  // Most lines of other formats are known by their first letter.
  if (line.charCodeAt(0) !== BRACE) return undefined;
  try {
    return mapOf(JSON.parse(line));
  } catch {
    return undefined;
  }
}

const BRACE = 0x7b;

export function mapOf(value: unknown): ReadonlyMap<string, unknown> | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? new Map(Object.entries(value))
    : undefined;
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value !== '-' ? value : undefined;
}

/** A number, also one that is written as a text. */
export function numberOf(value: unknown): number | undefined {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}

/** Milliseconds since 1970, of a date or of a number of seconds. */
export function momentOf(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value * 1000 : undefined;
  const ms = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isFinite(ms) ? ms : undefined;
}

/** `203.0.113.7:4711` and `[2001:db8::1]:4711` without the port. */
export function withoutPort(address: string): string {
  const bracketed = /^\[([^\]]*)\]/.exec(address);
  if (bracketed !== null) return bracketed[1] ?? '';
  const colon = address.indexOf(':');
  return colon !== -1 && colon === address.lastIndexOf(':') ? address.slice(0, colon) : address;
}

import { withoutPort } from './addresses.ts';
import { momentOf } from './moments.ts';

/** The fields of a line that a format asks for, by their places in its list. */
export interface LoggedFields {
  /** Anything but null. */
  has(place: number): boolean;
  hasObject(place: number): boolean;
  /** This text, or any. */
  hasText(place: number, text?: string): boolean;
  /** Undefined if it is no text, empty or a dash. */
  text(place: number): string | undefined;
  /** The same without a port. */
  address(place: number): string | undefined;
  /** Undefined if it is no number; it may be written as a text. */
  number(place: number): number | undefined;
  /** Milliseconds since 1970, of a date or of a number of seconds. */
  moment(place: number): number | undefined;
}

/** Those of a line that was parsed. */
export class ParsedFields implements LoggedFields {
  private readonly values: readonly unknown[];

  constructor(values: readonly unknown[]) {
    this.values = values;
  }

  has(place: number): boolean {
    return (this.values[place] ?? undefined) !== undefined;
  }

  hasObject(place: number): boolean {
    return isObject(this.values[place]);
  }

  hasText(place: number, text?: string): boolean {
    const value = this.values[place];
    return typeof value === 'string' && (text === undefined || value === text);
  }

  text(place: number): string | undefined {
    return textOf(this.values[place]);
  }

  address(place: number): string | undefined {
    const text = this.text(place);
    return text === undefined ? undefined : withoutPort(text);
  }

  number(place: number): number | undefined {
    return numberOf(this.values[place]);
  }

  moment(place: number): number | undefined {
    return momentOf(this.values[place]);
  }
}

/** Undefined for what is no JSON, and for what is no object. */
export function parsedObject(line: string): object | undefined {
  try {
    const parsed: unknown = JSON.parse(line);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** `request.method` stands within the object `request`. Undefined if it is not there. */
export function fieldAt(parsed: object, path: string): unknown {
  let value: unknown = parsed;
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = Reflect.get(value, name);
  }
  return value;
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value !== '-' ? value : undefined;
}

/** A number, also one that is written as a text. */
export function numberOf(value: unknown): number | undefined {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}

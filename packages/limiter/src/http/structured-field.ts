// The three kinds of Structured Fields (RFC 9651) that rate limit headers are made of. A value that cannot be written
// throws: what reaches a header never depends on an earlier check.
import { LimiterError, show } from '../errors.ts';

/** RFC 9651 §3.3.1: fifteen digits. */
const MAX_INTEGER = 999_999_999_999_999;
const PRINTABLE = /^[\x20-\x7e]*$/;

export function fieldString(text: string): string {
  return `"${printable(text).replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

/** A text that can stand in a header as it is. */
export function printable(text: string): string {
  if (PRINTABLE.test(text)) return text;
  throw new LimiterError(
    'INVALID_POLICY',
    `A header cannot carry ${show(text)}; name the policy in printable ASCII, such as 'api'.`,
  );
}

/** A count, cut off at the largest that a field can carry: a quota beyond it is as good as that. */
export function fieldInteger(value: number): string {
  if (!Number.isInteger(value) || value < 0) {
    throw new LimiterError(
      'INVALID_LIMITS',
      `A header cannot carry ${show(value)}; expected an integer >= 0.`,
    );
  }
  return String(Math.min(value, MAX_INTEGER));
}

/** Bytes, given as hexadecimal digits. */
export function fieldBytes(hex: string): string {
  const characters = Array.from({ length: hex.length / 2 }, (_, at) =>
    String.fromCharCode(Number.parseInt(hex.slice(at * 2, at * 2 + 2), 16)),
  );
  return `:${btoa(characters.join(''))}:`;
}

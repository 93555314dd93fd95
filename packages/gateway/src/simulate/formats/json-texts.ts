// Texts as JSON writes them, out of bytes.
import { ODD } from './json-numbers.ts';
import { WORD, wordsOf } from './line-words.ts';

const [SPACE, QUOTE, BACKSLASH, UNICODE] = [0x20, 0x22, 0x5c, 0x75];
/** The same byte four times. */
const [ONES, SPACES, QUOTES, BACKSLASHES, HIGH_BITS] = [
  0x01010101,
  0x20202020,
  0x22222222,
  0x5c5c5c5c,
  ~0x7f7f7f7f,
];

/** Where the text ends that begins here, after its quote; `ODD` if it is none, or has to be plain and is not. */
export function textEnd(bytes: Buffer, from: number, end: number, mayBeOdd: boolean): number {
  const at = plainEnd(bytes, from, end);
  if (at < end && bytes[at] === QUOTE) return at + 1;
  return mayBeOdd ? oddTextEnd(bytes, at, end) : ODD;
}

/** Of a text with escapes, or with more than ASCII. */
function oddTextEnd(bytes: Buffer, from: number, end: number): number {
  for (let at = from; at < end; at = plainEnd(bytes, at + 1, end)) {
    const byte = bytes[at] ?? 0;
    if (byte === QUOTE) return at + 1;
    if (byte < SPACE) return ODD;
    if (byte !== BACKSLASH) continue;
    at = escapeEnd(bytes, at + 1);
    if (at === ODD) return ODD;
  }
  return ODD;
}

/** Where the first byte is that does not stand for itself, or is not ASCII. */
function plainEnd(bytes: Buffer, from: number, end: number): number {
  const words = wordsOf(bytes);
  let at = from;
  for (; at + WORD <= end; at += WORD) {
    const odd = oddBytes(words.getInt32(at, true));
    if (odd !== 0) return at + ((31 - Math.clz32(odd & -odd)) >>> 3);
  }
  while (at < end && oddBytes(bytes[at] ?? 0) << 24 === 0) at += 1;
  return at;
}

/**
 * The highest bits of those of four bytes that are odd. Subtracting borrows from the byte above, so only the lowest of
 * these bits is certain: it is the first odd byte.
 */
function oddBytes(word: number): number {
  const quotes = word ^ QUOTES;
  const backslashes = word ^ BACKSLASHES;
  return (
    (((quotes - ONES) & ~quotes) | ((backslashes - ONES) & ~backslashes) | ((word - SPACES) & ~word) | word) &
    HIGH_BITS
  );
}

/** What may follow a backslash, besides `u` and four digits. */
const ESCAPES: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));
const HEX_DIGITS = /^[\da-f]{4}$/i;

/** Where the last character of an escape is. */
function escapeEnd(bytes: Buffer, at: number): number {
  const letter = bytes[at] ?? 0;
  if (letter !== UNICODE) return ESCAPES.has(letter) ? at : ODD;
  return HEX_DIGITS.test(bytes.toString('latin1', at + 1, at + 5)) ? at + 4 : ODD;
}

import { wordsOf, WordsOfText } from './line-words.ts';

const WRITTEN = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.?\d*Z$/;
const SECOND_LENGTH = '2026-10-10T13:55:36'.length;
const [POINT, ZERO, LETTER_Z] = [0x2e, 0x30, 0x5a];

let last: { readonly second: string; readonly words: WordsOfText; readonly ms: number } | undefined;

/**
 * What `Date.parse` says; NaN for what is no date. Lines of the same second follow each other, so the last one is
 * remembered, and only the fraction is read.
 */
export function writtenMoment(text: string): number {
  if (last !== undefined && text.startsWith(last.second)) {
    const fraction = fractionMs(text);
    if (fraction !== undefined) return last.ms + fraction;
  }
  const ms = Date.parse(text);
  if (Number.isFinite(ms) && WRITTEN.test(text)) {
    const second = text.slice(0, SECOND_LENGTH);
    last = { second, words: new WordsOfText(Buffer.from(second, 'latin1')), ms: Date.parse(`${second}Z`) };
  }
  return ms;
}

/** The same of bytes that are ASCII. */
export function momentAt(bytes: Buffer, from: number, to: number): number {
  if (last !== undefined && to - from > SECOND_LENGTH && last.words.isAt(wordsOf(bytes), from)) {
    const fraction = fractionAt(bytes, from + SECOND_LENGTH, to);
    if (fraction !== undefined) return last.ms + fraction;
  }
  return writtenMoment(bytes.toString('latin1', from, to));
}

/** As `fractionMs`. */
function fractionAt(bytes: Buffer, from: number, to: number): number | undefined {
  const end = to - 1;
  if (bytes[end] !== LETTER_Z || end < from) return undefined;
  if (end === from) return 0;
  if (bytes[from] !== POINT || end < from + 4) return undefined;
  let ms = 0;
  for (let at = from + 1; at < end; at += 1) {
    const digit = (bytes[at] ?? 0) - ZERO;
    if (digit < 0 || digit > 9) return undefined;
    if (at <= from + 3) ms = 10 * ms + digit;
  }
  return ms;
}

/** Of `Z`, or `.` and three digits or more and `Z`; undefined for anything else. Milliseconds are cut, not rounded. */
function fractionMs(text: string): number | undefined {
  const end = text.length - 1;
  if (text.charCodeAt(end) !== LETTER_Z) return undefined;
  if (end === SECOND_LENGTH) return 0;
  if (text.charCodeAt(SECOND_LENGTH) !== POINT || end < SECOND_LENGTH + 4) return undefined;
  let ms = 0;
  for (let at = SECOND_LENGTH + 1; at < end; at += 1) {
    const digit = text.charCodeAt(at) - ZERO;
    if (digit < 0 || digit > 9) return undefined;
    if (at <= SECOND_LENGTH + 3) ms = 10 * ms + digit;
  }
  return ms;
}

/** Milliseconds since 1970, of a date or of a number of seconds. */
export function momentOf(value: unknown): number | undefined {
  if (typeof value === 'number') return inMilliseconds(value);
  const ms = typeof value === 'string' ? writtenMoment(value) : Number.NaN;
  return Number.isFinite(ms) ? ms : undefined;
}

export function inMilliseconds(seconds: number | undefined): number | undefined {
  return seconds !== undefined && Number.isFinite(seconds) ? seconds * 1000 : undefined;
}

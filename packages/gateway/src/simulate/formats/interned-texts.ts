import { WORD, wordsOf } from './line-words.ts';

// A text that came not long ago is not made again. As in the library's store, a row is one cache line: the hash, the
// length and the bytes of a text. A new text takes the place of another, so that the memory is bounded.
const ROWS: number = 2 ** 16;
const ROW_WORDS = 16;
const [HASH_AT, LENGTH_AT, BYTES_AT] = [0, 1, 2];
const MAX_LENGTH: number = 4 * (ROW_WORDS - BYTES_AT);
/** A text stands in one of so many rows that follow each other. */
const ROWS_PER_TEXT = 4;
const STEP = 0x9e3779b1;

class InternedTexts {
  private readonly rows = new Int32Array(ROWS * ROW_WORDS);
  private readonly texts: string[] = Array.from({ length: ROWS }, () => '');
  /** The text that is looked for: four bytes each, the first in the lowest byte. */
  private readonly words = new Int32Array(ROW_WORDS);

  of(bytes: Buffer, from: number, to: number): string | undefined {
    const length = to - from;
    if (length > MAX_LENGTH) return longText(bytes, from, to);
    const hash = this.pack(bytes, from, to);
    if (hash === NOT_ASCII) return undefined;
    const first = (hash ^ (hash >>> 16)) & (ROWS - ROWS_PER_TEXT);
    let place = first + (hash >>> 30);
    for (let row = first; row < first + ROWS_PER_TEXT; row += 1) {
      const found = this.rows[row * ROW_WORDS + HASH_AT];
      if (found === hash && this.isIn(row, length)) return this.texts[row];
      if (found !== VACANT) continue;
      // Nobody loses a place while there is another.
      place = row;
      break;
    }
    return this.put(place, hash, bytes.toString('latin1', from, to));
  }

  /** Returns the hash, which is never 0: so a row that nobody took is nobody's. */
  private pack(bytes: Buffer, from: number, to: number): number {
    const { words } = this;
    const read = wordsOf(bytes);
    let hash = to - from;
    let bits = 0;
    let word = BYTES_AT;
    let at = from;
    for (; at + WORD <= to; at += WORD) {
      const four = read.getInt32(at, true);
      hash = mixed(hash, four);
      bits |= four;
      words[word] = four;
      word += 1;
    }
    if (at < to) {
      let rest = 0;
      for (let shift = 0; at < to; at += 1, shift += 8) rest |= (bytes[at] ?? 0) << shift;
      hash = mixed(hash, rest);
      bits |= rest;
      words[word] = rest;
    }
    return (bits & HIGH_BITS) === 0 ? hash | 1 : NOT_ASCII;
  }

  private isIn(row: number, length: number): boolean {
    const { rows, words } = this;
    const start = row * ROW_WORDS;
    if (rows[start + LENGTH_AT] !== length) return false;
    const end = BYTES_AT + ((length + 3) >>> 2);
    for (let at = BYTES_AT; at < end; at += 1) if (rows[start + at] !== words[at]) return false;
    return true;
  }

  private put(row: number, hash: number, text: string): string {
    this.words[HASH_AT] = hash;
    this.words[LENGTH_AT] = text.length;
    this.rows.set(this.words, row * ROW_WORDS);
    this.texts[row] = text;
    return text;
  }
}

const NOT_ASCII = 0;
/** No text has this hash. */
const VACANT = 0;
/** Of four bytes. */
const HIGH_BITS: number = 0x80808080 | 0;

function mixed(hash: number, word: number): number {
  const product = Math.imul(hash ^ word, STEP);
  return product ^ (product >>> 15);
}

function longText(bytes: Buffer, from: number, to: number): string | undefined {
  for (let at = from; at < to; at += 1) if ((bytes[at] ?? 0) > 0x7f) return undefined;
  return bytes.toString('latin1', from, to);
}

const TEXTS = new InternedTexts();

/** The text of these bytes; undefined if they are not ASCII. */
export function asciiText(bytes: Buffer, from: number, to: number): string | undefined {
  return TEXTS.of(bytes, from, to);
}

/** The same where the text is most likely this one again. */
export function asciiTextLike(last: string, bytes: Buffer, from: number, to: number): string | undefined {
  return isAt(last, bytes, from, to) ? last : asciiText(bytes, from, to);
}

/** Whether these bytes are that text, of which every character is ASCII. */
export function isAt(text: string, bytes: Buffer, from: number, to: number): boolean {
  if (text.length !== to - from) return false;
  for (let at = 0; at < text.length; at += 1) if (text.charCodeAt(at) !== bytes[from + at]) return false;
  return true;
}

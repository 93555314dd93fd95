/** The longest text under which a state is kept (`toStateKey`), four characters to a word. */
const MAX_WORDS = 32;

/**
 * The key that a table is asked for: its hash, and its bytes as words. Reading a character of a text costs more than
 * anything else about it, so each is read once, for both.
 */
export class PackedKey {
  hash = 0;
  /** Four characters each, the first in the lowest byte; zeros after the last. Only if `isNarrow`. */
  readonly words: Int32Array = new Int32Array(MAX_WORDS);
  /** Every character fits into a byte. */
  isNarrow = true;
  private readonly seed: number;

  /** The seed has to be secret: then nobody outside can choose keys that collide. */
  constructor(seed: number) {
    this.seed = seed;
  }

  /**
   * Two lanes, because each step of one has to wait for the step before it. The hash is never 0, which marks a vacant
   * place.
   */
  pack(text: string): void {
    const { words } = this;
    const { length } = text;
    let even = this.seed ^ length;
    let odd = ~this.seed;
    let bits = 0;
    let at = 0;
    for (; at + 3 < length; at += 4) {
      const first = text.charCodeAt(at);
      const second = text.charCodeAt(at + 1);
      const third = text.charCodeAt(at + 2);
      const fourth = text.charCodeAt(at + 3);
      even = Math.imul(rotated(Math.imul(rotated(even) ^ first, EVEN)) ^ third, EVEN);
      odd = Math.imul(rotated(Math.imul(rotated(odd) ^ second, ODD)) ^ fourth, ODD);
      words[at >>> 2] = first | (second << 8) | (third << 16) | (fourth << 24);
      bits |= first | second | third | fourth;
    }
    if (at < length) {
      let word = 0;
      for (let shift = 0; at < length; at += 1, shift += 8) {
        const code = text.charCodeAt(at);
        if ((at & 1) === 0) even = Math.imul(rotated(even) ^ code, EVEN);
        else odd = Math.imul(rotated(odd) ^ code, ODD);
        word |= code << shift;
        bits |= code;
      }
      words[(length - 1) >>> 2] = word;
    }
    this.hash = finished(even ^ ((odd << 16) | (odd >>> 16)));
    this.isNarrow = bits <= 0xff;
  }
}

const EVEN = 0x9e3779b1;
const ODD = 0x85ebca6b;

function rotated(lane: number): number {
  return (lane << 5) | (lane >>> 27);
}

function finished(mixed: number): number {
  let hash = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16) || 1;
}

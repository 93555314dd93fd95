// Several bytes at a time: looking at them one by one takes longer.

/** In bytes. */
export const WORD = 4;

let viewed: Buffer | undefined;
let view: DataView = new DataView(new ArrayBuffer(0));

/** Reads words of these bytes, wherever they begin. Lines stand in the same bytes as those before them. */
export function wordsOf(bytes: Buffer): DataView {
  if (bytes !== viewed) {
    viewed = bytes;
    view = viewOf(bytes);
  }
  return view;
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

const EIGHT = 8;

/**
 * Bytes to be looked for, of a line of JSON or of a date: so none is 0. Eight are compared as one number. Others are
 * another number, since only zeros are written in two ways; and what is no number equals nothing, not even itself.
 */
export class WordsOfText {
  readonly length: number;
  private readonly bytes: Uint8Array;
  /** The last may have bytes of the one before. */
  private readonly numbers: Float64Array;
  private readonly lastAt: number;

  constructor(bytes: Uint8Array) {
    const own = viewOf(bytes);
    const { length } = bytes;
    this.length = length;
    this.bytes = bytes;
    this.lastAt = length - EIGHT;
    const count = length < EIGHT ? 0 : Math.ceil(length / EIGHT);
    this.numbers = Float64Array.from({ length: count }, (_, at) =>
      own.getFloat64(Math.min(EIGHT * at, this.lastAt), true),
    );
  }

  /** Whether they stand here. So many bytes have to be there. */
  isAt(words: DataView, from: number): boolean {
    const { numbers, bytes, lastAt } = this;
    const last = numbers.length - 1;
    for (let at = 0; at < last; at += 1) {
      if (words.getFloat64(from + EIGHT * at, true) !== numbers[at]) return false;
    }
    if (last >= 0) return words.getFloat64(from + lastAt, true) === numbers[last];
    for (let at = 0; at < bytes.length; at += 1) if (words.getUint8(from + at) !== bytes[at]) return false;
    return true;
  }
}

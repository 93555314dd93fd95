const [SPACE, QUOTE, DELETE] = [0x20, 0x22, 0x7f];

/** Where the word ends that begins here: at a space, a quote, or anything that is not printed ASCII. */
export function wordEnd(bytes: Buffer, from: number, to: number): number {
  let at = from;
  for (; at < to; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte <= SPACE || byte === QUOTE || byte >= DELETE) break;
  }
  return at;
}

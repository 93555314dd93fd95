// The Huffman code of HPACK (RFC 7541 §5.2).
import { HUFFMAN_LENGTHS } from './hpack-tables.ts';

const END_OF_TEXT = 256;
const NODES = HUFFMAN_LENGTHS.length - 1;
/** By node and bit: a node if it is positive, else the complement of a symbol. */
const TREE = treeOf(HUFFMAN_LENGTHS);
const MAX_PADDING_BITS = 7;
/** The shortest code has five bits. */
const MOST_SYMBOLS_PER_BYTE = 8 / 5;

let scratch = Buffer.allocUnsafe(256);

/** The text in a piece of `bytes`; undefined if it is not one in this code. */
export function decodeHuffman(bytes: Buffer, start: number, end: number): string | undefined {
  const most = Math.ceil((end - start) * MOST_SYMBOLS_PER_BYTE);
  if (scratch.length < most) scratch = Buffer.allocUnsafe(most);
  let written = 0;
  let node = 0;
  // What stands behind the last symbol has to be the beginning of the longest code: ones, and less than a byte.
  let pending = 0;
  let onlyOnes = true;
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] ?? 0;
    for (let shift = 7; shift >= 0; shift -= 1) {
      const bit = (byte >> shift) & 1;
      const next = TREE[2 * node + bit] ?? 0;
      if (next > 0) {
        node = next;
        pending += 1;
        onlyOnes &&= bit === 1;
        continue;
      }
      const symbol = ~next;
      if (symbol === END_OF_TEXT) return undefined;
      scratch[written] = symbol;
      written += 1;
      node = 0;
      pending = 0;
      onlyOnes = true;
    }
  }
  if (pending > MAX_PADDING_BITS || !onlyOnes) return undefined;
  return scratch.toString('latin1', 0, written);
}

function treeOf(lengths: readonly number[]): Int16Array {
  const tree = new Int16Array(2 * NODES);
  const order = [...lengths.keys()].toSorted(
    (one, other) => (lengths[one] ?? 0) - (lengths[other] ?? 0) || one - other,
  );
  let nodes = 1;
  let code = 0;
  let length = lengths[order[0] ?? 0] ?? 0;
  for (const symbol of order) {
    const own = lengths[symbol] ?? 0;
    code *= 2 ** (own - length);
    length = own;
    let node = 0;
    for (let shift = length - 1; shift > 0; shift -= 1) {
      const slot = 2 * node + (Math.floor(code / 2 ** shift) % 2);
      if (tree[slot] === 0) {
        tree[slot] = nodes;
        nodes += 1;
      }
      node = tree[slot] ?? 0;
    }
    tree[2 * node + (code % 2)] = ~symbol;
    code += 1;
  }
  return tree;
}

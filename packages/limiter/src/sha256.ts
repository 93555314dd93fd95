// SHA-256 (FIPS 180-4) over the UTF-16 code units of a string, big-endian. Written here because the platform's own is
// asynchronous on edge runtimes and `node:crypto` does not exist there. Code units rather than UTF-8: two strings that
// differ only in a lone surrogate would be the same bytes in UTF-8.

const BLOCK_UNITS = 32;

/** The first 32 bits of the fractional parts of a root of the first primes, as the standard defines its constants. */
function fractionalRoots(count: number, root: (prime: number) => number): number[] {
  const constants: number[] = [];
  for (let candidate = 2; constants.length < count; candidate += 1) {
    const isPrime = !Array.from({ length: candidate }, (_, at) => at).some(
      (at) => at > 1 && candidate % at === 0,
    );
    if (isPrime) constants.push(((root(candidate) % 1) * 2 ** 32) | 0);
  }
  return constants;
}

const ROUND_CONSTANTS = Int32Array.from(fractionalRoots(64, Math.cbrt));
const INITIAL_STATE = Int32Array.from(fractionalRoots(8, Math.sqrt));

export function sha256Hex(text: string): string {
  const state = Int32Array.from(INITIAL_STATE);
  const words = new Int32Array(64);
  // One unit of padding marks the end; the length in bits takes the last two words of a block.
  const blocks = Math.ceil((text.length + 1 + 4) / BLOCK_UNITS);
  for (let block = 0; block < blocks; block += 1) {
    loadBlock(words, text, block * BLOCK_UNITS);
    if (block === blocks - 1) {
      words[14] = Math.floor((text.length * 16) / 2 ** 32);
      words[15] = (text.length * 16) | 0;
    }
    compress(state, words);
  }
  return Array.from(state, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

function loadBlock(words: Int32Array, text: string, from: number): void {
  for (let word = 0; word < 16; word += 1) {
    const at = from + word * 2;
    words[word] = (unitAt(text, at) << 16) | unitAt(text, at + 1);
  }
}

function unitAt(text: string, at: number): number {
  if (at < text.length) return text.charCodeAt(at);
  return at === text.length ? 0x8000 : 0;
}

function compress(state: Int32Array, words: Int32Array): void {
  for (let at = 16; at < 64; at += 1) {
    const w15 = words[at - 15] ?? 0;
    const w2 = words[at - 2] ?? 0;
    const s0 = rotate(w15, 7) ^ rotate(w15, 18) ^ (w15 >>> 3);
    const s1 = rotate(w2, 17) ^ rotate(w2, 19) ^ (w2 >>> 10);
    words[at] = ((words[at - 16] ?? 0) + s0 + (words[at - 7] ?? 0) + s1) | 0;
  }
  // Plain variables and stores: a block is compressed 32,768 times for the longest key.
  let a = state[0] ?? 0;
  let b = state[1] ?? 0;
  let c = state[2] ?? 0;
  let d = state[3] ?? 0;
  let e = state[4] ?? 0;
  let f = state[5] ?? 0;
  let g = state[6] ?? 0;
  let h = state[7] ?? 0;
  for (let at = 0; at < 64; at += 1) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + (ROUND_CONSTANTS[at] ?? 0) + (words[at] ?? 0)) | 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  state[0] = ((state[0] ?? 0) + a) | 0;
  state[1] = ((state[1] ?? 0) + b) | 0;
  state[2] = ((state[2] ?? 0) + c) | 0;
  state[3] = ((state[3] ?? 0) + d) | 0;
  state[4] = ((state[4] ?? 0) + e) | 0;
  state[5] = ((state[5] ?? 0) + f) | 0;
  state[6] = ((state[6] ?? 0) + g) | 0;
  state[7] = ((state[7] ?? 0) + h) | 0;
}

function rotate(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by));
}

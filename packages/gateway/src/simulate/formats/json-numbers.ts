// Numbers as JSON writes them, out of bytes.

/** Instead of a place: what stands there is no JSON, or so unusual that it is left to JSON.parse. */
export const ODD = -1;

const [PLUS, MINUS, POINT, ZERO, CAPITAL_E, SMALL_E] = [0x2b, 0x2d, 0x2e, 0x30, 0x45, 0x65];
/** Powers of ten up to 1e22 are exact. */
const MAX_LENGTH = 22;
const POWERS_OF_TEN: Float64Array = Float64Array.from({ length: MAX_LENGTH + 1 }, (_, power) =>
  Number(`1e${power}`),
);
const MAX_FEW = 9;

export function isNumberStart(byte: number): boolean {
  return byte === MINUS || isDigit(byte);
}

/** One comparison: what is below a zero becomes a large number. */
function isDigit(byte: number): boolean {
  return (byte - ZERO) >>> 0 <= 9;
}

/** Where the number ends that begins here, or `ODD`. */
export function numberEnd(bytes: Buffer, from: number, end: number): number {
  const start = bytes[from] === MINUS ? from + 1 : from;
  let at = digitsEnd(bytes, start, end);
  if (at === start || (bytes[start] === ZERO && at > start + 1)) return ODD;
  if (bytes[at] === POINT) {
    const fraction = at + 1;
    at = digitsEnd(bytes, fraction, end);
    if (at === fraction) return ODD;
  }
  if (bytes[at] !== SMALL_E && bytes[at] !== CAPITAL_E) return at;
  const exponent = bytes[at + 1] === PLUS || bytes[at + 1] === MINUS ? at + 2 : at + 1;
  at = digitsEnd(bytes, exponent, end);
  return at === exponent ? ODD : at;
}

function digitsEnd(bytes: Buffer, from: number, end: number): number {
  let at = from;
  while (at < end && isDigit(bytes[at] ?? 0)) at += 1;
  return at;
}

/**
 * What `Number` says of these characters. One division of two exact numbers is rounded once, as it rounds. Up to nine
 * digits together are a small integer, which is quicker to build.
 */
export function numberAt(bytes: Buffer, from: number, to: number): number {
  const isNegative = bytes[from] === MINUS;
  let digits = 0;
  let few = 0;
  let count = 0;
  let point = -1;
  for (let at = isNegative ? from + 1 : from; at < to; at += 1) {
    const byte = bytes[at] ?? 0;
    if (isDigit(byte)) {
      if (count === MAX_FEW) {
        digits = 1e9 * digits + few;
        few = 0;
        count = 0;
      }
      few = 10 * few + byte - ZERO;
      count += 1;
    } else if (byte === POINT && point < 0) point = at;
    else return Number(bytes.toString('latin1', from, to));
  }
  digits = digits * (POWERS_OF_TEN[count] ?? 1) + few;
  if (digits > Number.MAX_SAFE_INTEGER || to - from > MAX_LENGTH)
    return Number(bytes.toString('latin1', from, to));
  const value = point < 0 ? digits : digits / (POWERS_OF_TEN[to - point - 1] ?? 1);
  return isNegative ? -value : value;
}

// Numbers as JSON writes them, out of bytes.

/** Instead of a place: what stands there is no JSON, or so unusual that it is left to JSON.parse. */
export const ODD = -1;

const [PLUS, MINUS, POINT, ZERO, CAPITAL_E, SMALL_E] = [0x2b, 0x2d, 0x2e, 0x30, 0x45, 0x65];
/** Powers of ten up to 1e22 are exact. */
const MAX_LENGTH = 22;

export function isNumberStart(byte: number): boolean {
  return byte === MINUS || isDigit(byte);
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= ZERO + 9;
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
  while (at < end && isDigit(bytes[at])) at += 1;
  return at;
}

/** What `Number` says of these characters. One division of two exact numbers is rounded once, as it rounds. */
export function numberAt(bytes: Buffer, from: number, to: number): number {
  let digits = 0;
  let scale = 0;
  for (let at = bytes[from] === MINUS ? from + 1 : from; at < to; at += 1) {
    const byte = bytes[at] ?? 0;
    if (isDigit(byte)) {
      digits = 10 * digits + byte - ZERO;
      scale *= 10;
    } else if (byte === POINT && scale === 0) scale = 1;
    else return Number(bytes.toString('latin1', from, to));
  }
  if (digits > Number.MAX_SAFE_INTEGER || to - from > MAX_LENGTH)
    return Number(bytes.toString('latin1', from, to));
  const value = scale === 0 ? digits : digits / scale;
  return bytes[from] === MINUS ? -value : value;
}

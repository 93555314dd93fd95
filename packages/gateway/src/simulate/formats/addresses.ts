import { asciiText } from './interned-texts.ts';

const [COLON, OPEN, CLOSE] = [0x3a, 0x5b, 0x5d];

/** `203.0.113.7:4711` and `[2001:db8::1]:4711` without the port. */
export function withoutPort(address: string): string {
  const bracket = address.startsWith('[') ? address.indexOf(']') : -1;
  if (bracket !== -1) return address.slice(1, bracket);
  const colon = address.indexOf(':');
  return colon !== -1 && colon === address.lastIndexOf(':') ? address.slice(0, colon) : address;
}

/** The same of bytes; undefined if they are not ASCII. */
export function addressAt(bytes: Buffer, from: number, to: number): string | undefined {
  let [colons, colon, bracket] = [0, to, to];
  for (let at = from; at < to; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte === COLON) {
      colons += 1;
      colon = at;
    } else if (byte === CLOSE && bracket === to) bracket = at;
  }
  if (bytes[from] === OPEN && bracket < to) return asciiText(bytes, from + 1, bracket);
  return asciiText(bytes, from, colons === 1 ? colon : to);
}

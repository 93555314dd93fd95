/** Slots of a Redis Cluster: CRC16 (XMODEM) of the key's hash tag, or of the whole key without one. */
export const SLOT_COUNT = 16_384;

export function slotOf(key: string): number {
  const open = key.indexOf('{');
  const close = key.indexOf('}', open + 1);
  const tagged = open >= 0 && close > open + 1;
  return crc16(tagged ? key.slice(open + 1, close) : key) % SLOT_COUNT;
}

/** Our names are ASCII, so that characters are bytes. */
function crc16(text: string): number {
  let crc = 0;
  for (let at = 0; at < text.length; at += 1) {
    crc = ((crc << 8) & 0xff_ff) ^ (CRC_TABLE[((crc >> 8) ^ text.charCodeAt(at)) & 0xff] ?? 0);
  }
  return crc;
}

const POLYNOMIAL = 0x10_21;
const CRC_TABLE: Uint16Array = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = (crc & 0x80_00) === 0 ? crc << 1 : (crc << 1) ^ POLYNOMIAL;
  return crc & 0xff_ff;
});

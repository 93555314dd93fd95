const FIXED_BYTES = 10;
const DEFLATE = 8;
const FLAGS_AT = 3;
const HAS_CHECKSUM = 2;
const HAS_EXTRA = 4;
const HAS_NAME = 8;
const HAS_COMMENT = 16;

/** What stands in front of the data of a member of gzip (RFC 1952 §2.3). Nothing of it is kept. */
export class GzipHeader {
  isDone = false;
  isBroken = false;
  private fixed = 0;
  private flags = 0;
  private extraLengthBytes = 0;
  private extraBytes = 0;
  private checksumBytes = 0;

  /** Reads up to its end, and says where that is. */
  feed(bytes: Buffer, from: number): number {
    let at = from;
    while (at < bytes.length && !this.isDone && !this.isBroken) {
      this.step(bytes[at] ?? 0);
      at += 1;
    }
    return at;
  }

  private step(byte: number): void {
    if (this.fixed < FIXED_BYTES) this.readFixed(byte);
    else if ((this.flags & HAS_EXTRA) !== 0) this.readExtra(byte);
    else if ((this.flags & HAS_NAME) !== 0) this.readText(byte, HAS_NAME);
    else if ((this.flags & HAS_COMMENT) !== 0) this.readText(byte, HAS_COMMENT);
    else if ((this.flags & HAS_CHECKSUM) !== 0) this.readChecksum();
    this.isDone = this.fixed === FIXED_BYTES && this.flags === 0;
  }

  private readFixed(byte: number): void {
    if (this.fixed === 1 && byte !== 0x8b) this.isBroken = true;
    if (this.fixed === 2 && byte !== DEFLATE) this.isBroken = true;
    if (this.fixed === FLAGS_AT) this.flags = byte & (HAS_CHECKSUM | HAS_EXTRA | HAS_NAME | HAS_COMMENT);
    this.fixed += 1;
  }

  /** A length of two bytes, the lower first, and so many bytes. */
  private readExtra(byte: number): void {
    if (this.extraLengthBytes < 2) {
      this.extraBytes += byte << (8 * this.extraLengthBytes);
      this.extraLengthBytes += 1;
    } else this.extraBytes -= 1;
    if (this.extraLengthBytes === 2 && this.extraBytes === 0) this.flags &= ~HAS_EXTRA;
  }

  private readText(byte: number, flag: number): void {
    if (byte === 0) this.flags &= ~flag;
  }

  private readChecksum(): void {
    this.checksumBytes += 1;
    if (this.checksumBytes === 2) this.flags &= ~HAS_CHECKSUM;
  }
}

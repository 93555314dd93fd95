// Writes protobuf into one buffer that is used again for every message: nothing is allocated but what is sent.

const FIRST_SIZE = 4096;
const VARINT = 0;
const LENGTH_DELIMITED = 2;
/** A length below this takes one byte. */
const ONE_BYTE = 0x80;
const MAX_VARINT_BYTES = 10;
/** The most that UTF-8 takes for a unit of UTF-16. */
const BYTES_PER_UNIT = 3;

/** What is 0 or empty is left out, as proto3 has it. */
export class MessageWriter {
  private bytes = Buffer.allocUnsafe(FIRST_SIZE);
  private at = 0;
  private head = 0;

  /** Begins a message behind `head` bytes that are left free. */
  begin(head: number): this {
    this.head = head;
    this.at = head;
    return this;
  }

  /** A copy of what was written, with the free bytes in front. */
  finish(): Buffer {
    const message = Buffer.allocUnsafe(this.at);
    this.bytes.copy(message, this.head, this.head, this.at);
    return message;
  }

  /** An integer from 0 below 2^53. */
  number(field: number, value: number): void {
    if (value === 0) return;
    this.reserve(2 * MAX_VARINT_BYTES);
    this.varint(field * 8 + VARINT);
    this.varint(value);
  }

  text(field: number, value: string): void {
    if (value === '') return;
    const start = this.open(field);
    this.reserve(value.length * BYTES_PER_UNIT);
    this.at += this.bytes.write(value, this.at);
    this.close(start);
  }

  blob(field: number, value: Uint8Array): void {
    if (value.length === 0) return;
    const start = this.open(field);
    this.reserve(value.length);
    this.bytes.set(value, this.at);
    this.at += value.length;
    this.close(start);
  }

  /** Begins a message inside this one; `close` takes what it returns. */
  open(field: number): number {
    this.reserve(MAX_VARINT_BYTES + 1);
    this.varint(field * 8 + LENGTH_DELIMITED);
    this.at += 1;
    return this.at;
  }

  close(start: number): void {
    const end = this.at;
    const length = end - start;
    this.at = start - 1;
    if (length >= ONE_BYTE) {
      // The length needs more than the one byte that was left for it.
      this.reserve(length + MAX_VARINT_BYTES);
      this.bytes.copyWithin(start - 1 + varintBytes(length), start, end);
    }
    this.varint(length);
    this.at += length;
  }

  private varint(value: number): void {
    let rest = value;
    while (rest >= ONE_BYTE) {
      this.bytes[this.at] = (rest % ONE_BYTE) + ONE_BYTE;
      this.at += 1;
      rest = Math.floor(rest / ONE_BYTE);
    }
    this.bytes[this.at] = rest;
    this.at += 1;
  }

  /** Makes room for so many bytes more; what lies behind `at` is kept. */
  private reserve(count: number): void {
    if (this.at + count <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.at + count));
    this.bytes.copy(larger);
    this.bytes = larger;
  }
}

function varintBytes(value: number): number {
  let count = 1;
  for (let rest = value; rest >= ONE_BYTE; rest = Math.floor(rest / ONE_BYTE)) count += 1;
  return count;
}

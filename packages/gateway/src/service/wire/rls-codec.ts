// `RateLimitRequest` and `RateLimitResponse` without descriptors: Envoy asks for every request, and reading and writing
// by descriptor takes twice the time.
import { create, toBinary } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import type { DescriptorEntry, RlsDescriptor, RlsRequest } from '../rls/descriptor-limits.ts';
import { messageNamed } from './proto-registry.ts';

/** Reads the fields of one message; what it does not know is skipped. */
type FieldReader = (reader: BinaryReader, field: number, type: WireType) => boolean;

/** Throws for bytes that are no message. */
export function readRlsRequest(bytes: Uint8Array): RlsRequest {
  let domain = '';
  let hitsAddend = 0;
  const descriptors: RlsDescriptor[] = [];
  readFields(new BinaryReader(bytes), bytes.length, (reader, field, type) => {
    if (field === 1 && type === WireType.LengthDelimited) domain = reader.string();
    else if (field === 2 && type === WireType.LengthDelimited) descriptors.push(readDescriptor(reader));
    else if (field === 3 && type === WireType.Varint) hitsAddend = reader.uint32();
    else return false;
    return true;
  });
  return { domain, hitsAddend, descriptors };
}

function readDescriptor(reader: BinaryReader): RlsDescriptor {
  const entries: DescriptorEntry[] = [];
  let limit: RlsDescriptor['limit'];
  let hitsAddend: bigint | undefined;
  let isNegativeHits = false;
  readMessage(reader, (inner, field, type) => {
    if (type === WireType.LengthDelimited && field === 1) entries.push(readEntry(inner));
    else if (type === WireType.LengthDelimited && field === 2) limit = readLimit(inner, limit);
    else if (type === WireType.LengthDelimited && field === 3) hitsAddend = readUint64(inner, hitsAddend);
    else if (type === WireType.Varint && field === 4) isNegativeHits = inner.bool();
    else return false;
    return true;
  });
  return { entries, limit, hitsAddend, isNegativeHits };
}

function readEntry(reader: BinaryReader): DescriptorEntry {
  let [key, value] = ['', ''];
  readMessage(reader, (inner, field, type) => {
    if (type === WireType.LengthDelimited && field === 1) key = inner.string();
    else if (type === WireType.LengthDelimited && field === 2) value = inner.string();
    else return false;
    return true;
  });
  return { key, value };
}

/** A message that comes twice is merged with the first one. */
function readLimit(reader: BinaryReader, known: RlsDescriptor['limit']): RlsDescriptor['limit'] {
  let { requestsPerUnit, unit } = known ?? { requestsPerUnit: 0, unit: 0 };
  readMessage(reader, (inner, field, type) => {
    if (type === WireType.Varint && field === 1) requestsPerUnit = inner.uint32();
    else if (type === WireType.Varint && field === 2) unit = inner.int32();
    else return false;
    return true;
  });
  return { requestsPerUnit, unit };
}

function readUint64(reader: BinaryReader, known = 0n): bigint {
  let value = known;
  readMessage(reader, (inner, field, type) => {
    if (type !== WireType.Varint || field !== 1) return false;
    value = BigInt(inner.uint64());
    return true;
  });
  return value;
}

function readMessage(reader: BinaryReader, read: FieldReader): void {
  const length = reader.uint32();
  readFields(reader, reader.pos + length, read);
}

function readFields(reader: BinaryReader, end: number, read: FieldReader): void {
  if (end > reader.len) throw new RangeError('premature EOF');
  while (reader.pos < end) {
    const [field, type] = reader.tag();
    if (!read(reader, field, type)) reader.skip(type, field);
  }
  if (reader.pos !== end) throw new RangeError('a message is longer than it says');
}

/** A `RateLimitResponse`. */
export interface RlsResponse {
  readonly overallCode: number;
  readonly statuses: readonly RlsResponseStatus[];
  readonly responseHeadersToAdd: readonly { readonly key: string; readonly value: string }[];
  readonly rawBody?: Uint8Array;
  readonly dynamicMetadata?: object;
}

export interface RlsResponseStatus {
  readonly code: number;
  readonly limitRemaining: number;
  readonly currentLimit?: { readonly requestsPerUnit: number; readonly unit: number; readonly name: string };
  readonly durationUntilReset?: { readonly seconds: bigint; readonly nanos: number };
}

const responseMessage = messageNamed('envoy.service.ratelimit.v3.RateLimitResponse');

/** A `RateLimitResponse`, behind `head` bytes that are left for the caller to fill. */
export function writeRlsResponse(response: RlsResponse, head = 0): Buffer {
  const { overallCode, statuses, responseHeadersToAdd, rawBody, dynamicMetadata } = response;
  // Any JSON: its descriptor knows how that is written.
  if (dynamicMetadata !== undefined) {
    const message = toBinary(responseMessage, create(responseMessage, { ...response }));
    return Buffer.concat([Buffer.alloc(head), message]);
  }
  writer.begin(head);
  writer.number(1, overallCode);
  for (const status of statuses) {
    const start = writer.open(2);
    writeStatus(status);
    writer.close(start);
  }
  for (const { key, value } of responseHeadersToAdd) {
    const start = writer.open(3);
    writer.text(1, key);
    writer.text(2, value);
    writer.close(start);
  }
  if (rawBody !== undefined) writer.blob(5, rawBody);
  return writer.finish();
}

function writeStatus(status: RlsResponseStatus): void {
  const { code, limitRemaining, currentLimit, durationUntilReset } = status;
  writer.number(1, code);
  if (currentLimit !== undefined) {
    const start = writer.open(2);
    writer.number(1, currentLimit.requestsPerUnit);
    writer.number(2, currentLimit.unit);
    writer.text(3, currentLimit.name);
    writer.close(start);
  }
  writer.number(3, limitRemaining);
  if (durationUntilReset !== undefined) {
    const start = writer.open(4);
    writer.number(1, Number(durationUntilReset.seconds));
    writer.number(2, durationUntilReset.nanos);
    writer.close(start);
  }
}

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
class MessageWriter {
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

/** One call after the other, and none waits within: they can share it. */
const writer = new MessageWriter();

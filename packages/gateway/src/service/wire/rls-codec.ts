// `RateLimitRequest` and `RateLimitResponse` without descriptors: Envoy asks for every request, and reading and writing
// by descriptor takes twice the time.
import { create, toBinary } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import type { DescriptorEntry, RlsDescriptor, RlsRequest } from '../rls/descriptor-limits.ts';
import { MessageWriter } from './message-writer.ts';
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

/** One call after the other, and none waits within: they can share it. */
const writer = new MessageWriter();

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

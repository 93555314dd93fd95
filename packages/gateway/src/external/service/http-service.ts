import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, type ZlibOptions } from 'node:zlib';
import { fromBinary, toJson } from '@bufbuild/protobuf';
import { headerLines, serviceAt, type ClientTls, type WholeResponse } from '../../http-client/index.ts';
import { parseStrictJson } from '../strict-json.ts';
import { responseMessage, fromProtoJson } from '../wire/descriptors.ts';
import {
  retryAfterMs,
  type ServiceAnswer,
  type ServiceAuth,
  type ServiceClient,
  ServiceFailure,
} from './service.ts';

export interface HttpServiceOptions {
  readonly url: string;
  readonly maxConnections: number;
  readonly maxResponseBytes: number;
  /** How long opening a connection may take. */
  readonly connectTimeoutMs: number;
  readonly tls: ClientTls;
  readonly auth: ServiceAuth | undefined;
}

const PROTOBUF = /^application\/(?:x-protobuf|protobuf|vnd\.google\.protobuf)\b/i;
/** A map: an object would find a decoder for `constructor`. */
const DECODERS: ReadonlyMap<string, (body: Uint8Array, options: ZlibOptions) => Promise<Uint8Array>> =
  new Map([
    ['gzip', promisify(gunzip)],
    ['x-gzip', promisify(gunzip)],
    ['deflate', promisify(inflate)],
    ['br', promisify(brotliDecompress)],
  ]);

/** Statuses of a service that works and does not like what it was asked. */
const ABOUT_THE_QUESTION = [400, 404, 410, 422];

/** Posts JSON, and reads JSON or protobuf. */
export function httpService(options: HttpServiceOptions): ServiceClient {
  const { url, maxConnections, maxResponseBytes, connectTimeoutMs: timeoutMs, tls, auth } = options;
  const service = serviceAt(url, { tls, timeoutMs, maxConnections });
  const headers = [
    ['content-type', 'application/json'],
    ['accept', 'application/json, application/protobuf;q=0.9'],
    ['accept-encoding', 'gzip, deflate, br'],
    auth === undefined ? [] : [auth.header, auth.value],
  ].flat();
  const maxBodyBytes = (status: number): number => (status === 200 ? maxResponseBytes : 0);
  return {
    id: `http ${url}`,
    ask: async (request, { signal }) => {
      try {
        const body = JSON.stringify(request);
        return await answerOf(
          await service.fetch({ method: 'POST', headers, body, maxBodyBytes, signal }),
          maxResponseBytes,
        );
      } catch (failure) {
        throw asServiceFailure(failure, signal);
      }
    },
    close: async () => service.close(),
  };
}

async function answerOf(response: WholeResponse, maxBytes: number): Promise<ServiceAnswer> {
  const { status, headers } = response;
  if (status !== 200) throw statusFailure(status, headers);
  if (response.truncated) throw tooLarge(maxBytes);
  const body = await uncompressed(response.body, headers, maxBytes);
  const isProtobuf = PROTOBUF.test(headerLines(headers, 'content-type')[0] ?? '');
  return {
    value: isProtobuf ? fromProtobuf(body) : parseStrictJson(body),
    cacheHeaders: {
      cacheControl: headerLines(headers, 'cache-control'),
      expires: headerLines(headers, 'expires'),
      date: headerLines(headers, 'date')[0],
      age: headerLines(headers, 'age')[0],
    },
  };
}

function statusFailure(status: number, headers: readonly string[]): ServiceFailure {
  // The wall clock: the header may be an HTTP date.
  const wait = retryAfterMs(headerLines(headers, 'retry-after')[0], Date.now());
  const reason = status === 429 ? 'rateLimited' : status === 404 ? 'unknownKey' : 'status';
  return new ServiceFailure(reason, `the service answered ${status}`, {
    retryAfterMs: wait,
    isOutage: !ABOUT_THE_QUESTION.includes(status),
  });
}

/** Never makes more than `maxBytes` of it, however small it was packed. */
async function uncompressed(
  body: Uint8Array,
  headers: readonly string[],
  maxBytes: number,
): Promise<Uint8Array> {
  const coding = headerLines(headers, 'content-encoding').join(',').trim().toLowerCase();
  if (coding === '' || coding === 'identity') return body;
  const decode = DECODERS.get(coding);
  if (decode === undefined) throw new ServiceFailure('invalid', 'the answer has an unknown Content-Encoding');
  try {
    return await decode(body, { maxOutputLength: maxBytes });
  } catch (cause) {
    if (cause instanceof RangeError) throw tooLarge(maxBytes);
    throw new ServiceFailure('invalid', 'the answer cannot be uncompressed', { cause });
  }
}

function fromProtobuf(body: Uint8Array): unknown {
  try {
    return fromProtoJson(
      toJson(responseMessage, fromBinary(responseMessage, body), { useProtoFieldName: true }),
    );
  } catch (cause) {
    throw new ServiceFailure('invalid', 'the answer is not the protobuf message', { cause });
  }
}

function tooLarge(maxBytes: number): ServiceFailure {
  return new ServiceFailure('tooLarge', `the answer has more than ${maxBytes} bytes`);
}

function asServiceFailure(failure: unknown, signal: AbortSignal): ServiceFailure {
  if (failure instanceof ServiceFailure) return failure;
  if (signal.aborted) return new ServiceFailure('timeout', 'the answer took too long', { cause: failure });
  const text = failure instanceof Error ? failure.message : 'unknown';
  return new ServiceFailure('unreachable', `the connection failed: ${text}`, { cause: failure });
}

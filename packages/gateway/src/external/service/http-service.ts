import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, type ZlibOptions } from 'node:zlib';
import { fromBinary, toJson } from '@bufbuild/protobuf';
import { type Dispatcher, Pool } from 'undici';
import { parseStrictJson } from '../strict-json.ts';
import { responseMessage } from '../wire/descriptors.ts';
import { fromProtoJson } from '../wire/proto-json.ts';
import type { TlsOptions } from '../client-tls.ts';
import {
  type LimitsRequest,
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
  readonly tls: TlsOptions;
  readonly auth: ServiceAuth | undefined;
}

type ResponseHeaders = Dispatcher.ResponseData['headers'];

const PROTOBUF = /^application\/(?:x-protobuf|protobuf|vnd\.google\.protobuf)\b/i;
const DECODERS: Readonly<Record<string, (body: Uint8Array, options: ZlibOptions) => Promise<Uint8Array>>> = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
};

/** Statuses of a service that works and does not like what it was asked. */
const ABOUT_THE_QUESTION = [400, 404, 410, 422];

/** Posts JSON, and reads JSON or protobuf. Redirects are not followed: they would lead where nobody has checked. */
export function httpService(options: HttpServiceOptions): ServiceClient {
  const { url, maxConnections, maxResponseBytes, auth } = options;
  const { origin, pathname, search } = new URL(url);
  // The service's deadline is the caller's signal: undici's own timeouts count silence, not time.
  const pool = new Pool(origin, {
    connections: maxConnections,
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { timeout: options.connectTimeoutMs, ...options.tls },
  });
  return {
    id: `http ${url}`,
    ask: async (request, { signal }) => {
      try {
        return await answerOf(await postAgain(request, signal), maxResponseBytes);
      } catch (failure) {
        throw asServiceFailure(failure, signal);
      }
    },
    close: async () => pool.destroy(),
  };

  /** A server may close a connection just when it is used again. Asking twice changes nothing there, so ask twice. */
  async function postAgain(request: LimitsRequest, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    try {
      return await post(request, signal);
    } catch (failure) {
      if (signal.aborted || !isClosedConnection(failure)) throw failure;
      return post(request, signal);
    }
  }

  async function post(request: LimitsRequest, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    return pool.request({
      method: 'POST',
      path: `${pathname}${search}`,
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, application/protobuf;q=0.9',
        'accept-encoding': 'gzip, deflate, br',
        ...(auth === undefined ? {} : { [auth.header]: auth.value }),
      },
      body: JSON.stringify(request),
      signal,
    });
  }
}

const CLOSED_CONNECTION = ['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'];

function isClosedConnection(failure: unknown): boolean {
  return failure instanceof Error && 'code' in failure && CLOSED_CONNECTION.includes(String(failure.code));
}

async function answerOf(response: Dispatcher.ResponseData, maxBytes: number): Promise<ServiceAnswer> {
  const { statusCode, headers } = response;
  // Without a listener the error of a body that is thrown away would end the process.
  response.body.on('error', () => undefined);
  if (statusCode !== 200) {
    response.body.destroy();
    throw statusFailure(statusCode, headers);
  }
  const body = await uncompressed(await bytesOf(response.body, maxBytes), headers, maxBytes);
  const isProtobuf = PROTOBUF.test(linesOf(headers, 'content-type')[0] ?? '');
  return {
    value: isProtobuf ? fromProtobuf(body) : parseStrictJson(body),
    cacheHeaders: {
      cacheControl: linesOf(headers, 'cache-control'),
      expires: linesOf(headers, 'expires'),
      date: linesOf(headers, 'date')[0],
      age: linesOf(headers, 'age')[0],
    },
  };
}

function statusFailure(status: number, headers: ResponseHeaders): ServiceFailure {
  const wait = retryAfterMs(linesOf(headers, 'retry-after')[0], Date.now());
  const reason = status === 429 ? 'rateLimited' : status === 404 ? 'unknownKey' : 'status';
  return new ServiceFailure(reason, `the service answered ${status}`, {
    retryAfterMs: wait,
    isOutage: !ABOUT_THE_QUESTION.includes(status),
  });
}

async function bytesOf(body: Dispatcher.ResponseData['body'], maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    if (!(chunk instanceof Uint8Array)) throw new TypeError('a body is made of bytes');
    size += chunk.length;
    // Leaving the loop destroys the body, and with it the connection.
    if (size > maxBytes) throw tooLarge(maxBytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Never makes more than `maxBytes` of it, however small it was packed. */
async function uncompressed(
  body: Uint8Array,
  headers: ResponseHeaders,
  maxBytes: number,
): Promise<Uint8Array> {
  const coding = linesOf(headers, 'content-encoding').join(',').trim().toLowerCase();
  if (coding === '' || coding === 'identity') return body;
  const decode = DECODERS[coding];
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

function linesOf(headers: ResponseHeaders, name: string): readonly string[] {
  const value = headers[name];
  return value === undefined ? [] : typeof value === 'string' ? [value] : value;
}

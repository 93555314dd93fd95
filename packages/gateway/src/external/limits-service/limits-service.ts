import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import {
  createSecureServer,
  createServer as createHttp2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2';
import type { AddressInfo, Server } from 'node:net';
import { fromBinary, fromJsonString, toBinary, toJson } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { parseStrictJson } from '../strict-json.ts';
import { FAILURE_POLICIES } from '../wire/definition.ts';
import { getLimits, requestMessage, responseMessage, isRecord } from '../wire/descriptors.ts';
import { type Limits, toWire, type WireAnswer } from './limits.ts';

/** What a gateway asks. */
export interface LimitsRequest {
  /** Who asks, as the gateway's key strategy reads it. */
  readonly key: string;
  /** The headers that the gateway's filter lets out, with names spelled as `X-Tenant-Id`. */
  readonly headers: Readonly<Record<string, string>>;
  /** Empty if the gateway does not send it. */
  readonly method: string;
  readonly path: string;
}

export interface LimitsServiceOptions {
  /** What holds for a request. Undefined: nobody knows the key, and the gateway uses its static limits. */
  readonly limits: (request: LimitsRequest) => Limits | undefined | Promise<Limits | undefined>;
  /** Hears why a question was answered with an error. Default: nobody does. */
  readonly onError?: ((error: unknown, request: LimitsRequest) => void) | undefined;
}

type AnyRequest = IncomingMessage | Http2ServerRequest;

export interface ListenOptions {
  /** Default: 127.0.0.1. */
  readonly host?: string | undefined;
  /** For HTTP/1.1: POST with JSON or protobuf. 0 takes any. Left out: it is not offered. */
  readonly port?: number | undefined;
  /** For gRPC. 0 takes any. Left out: it is not offered. */
  readonly grpcPort?: number | undefined;
  /** Certificate and key (PEM) of the gRPC server. Left out: without TLS. */
  readonly grpcTls?: { readonly cert: string | Buffer; readonly key: string | Buffer } | undefined;
}

export interface ListeningService {
  /** For `rate_limit.external.http.url`. */
  readonly url: string | undefined;
  /** For `rate_limit.external.grpc.address`. */
  readonly grpcAddress: string | undefined;
  readonly close: () => Promise<void>;
}

export interface LimitsService {
  /** For `http.createServer()`, `http2.createServer()` and frameworks: gRPC at its path, HTTP at every other. */
  readonly handler: (request: AnyRequest, response: ServerResponse | Http2ServerResponse) => void;
  readonly listen: (options: ListenOptions) => Promise<ListeningService>;
}

const MAX_REQUEST_BYTES = 2 ** 16;
const PROTOBUF = /^application\/(?:x-protobuf|protobuf|vnd\.google\.protobuf)\b/i;

/**
 * A service that gateways ask for limits, over HTTP and gRPC.
 *
 * @example
 * const service = createLimitsService({ limits: ({ key }) => ({ average: key === 'acme' ? 100 : 10, period: '1s' }) });
 * await service.listen({ port: 8081, grpcPort: 50052 });
 */
export function createLimitsService(options: LimitsServiceOptions): LimitsService {
  const answer = async (request: LimitsRequest): Promise<WireAnswer | undefined> => {
    try {
      const limits = await options.limits(request);
      return limits === undefined ? undefined : toWire(limits);
    } catch (error) {
      options.onError?.(error, request);
      throw error;
    }
  };
  const handler = connectNodeAdapter({
    routes: (router) => {
      router.rpc(getLimits, async (message) => {
        const wire = await answer(asRequest(toJson(requestMessage, message)));
        if (wire === undefined) throw new ConnectError('nobody knows this key', Code.NotFound);
        return fromJsonString(responseMessage, protoJson(wire));
      });
    },
    fallback: (request, response) => void overHttp(request, response, answer),
  });
  return { handler, listen: async (listening) => listen(handler, listening) };
}

type AnswerQuestion = (request: LimitsRequest) => Promise<WireAnswer | undefined>;

/** What versions 1 and 2 have in common. */
interface ServiceReply {
  readonly headersSent: boolean;
  writeHead(status: number, headers: Readonly<Record<string, string | number>>): unknown;
  end(body: string | Uint8Array): unknown;
}

async function overHttp(request: AnyRequest, response: ServiceReply, answer: AnswerQuestion): Promise<void> {
  try {
    if (request.method !== 'POST') return send(response, 405, { error: 'POST a question' });
    const isProtobuf = PROTOBUF.test(request.headers['content-type'] ?? '');
    const body = await bodyOf(request);
    if (body === undefined) return send(response, 413, { error: 'the question is too large' });
    const question = questionIn(body, isProtobuf);
    if (question === undefined) return send(response, 400, { error: 'this is not a question' });
    const wire = await answer(question);
    if (wire === undefined) return send(response, 404, { error: 'nobody knows this key' });
    return isProtobuf ? sendProtobuf(response, wire) : send(response, 200, wire);
  } catch {
    // The error goes to onError, not to the client.
    return send(response, 500, { error: 'the limits are not available' });
  }
}

async function bodyOf(request: AnyRequest): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request) {
    if (!(chunk instanceof Uint8Array)) return undefined;
    size += chunk.length;
    if (size > MAX_REQUEST_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function questionIn(body: Uint8Array, isProtobuf: boolean): LimitsRequest | undefined {
  try {
    return asRequest(
      isProtobuf ? toJson(requestMessage, fromBinary(requestMessage, body)) : parseStrictJson(body),
    );
  } catch {
    return undefined;
  }
}

/** Throws if there is no key, or a field is not what it should be. */
function asRequest(value: unknown): LimitsRequest {
  const { key, headers = {}, method = '', path = '' } = isRecord(value) ? value : {};
  if (
    typeof key !== 'string' ||
    typeof method !== 'string' ||
    typeof path !== 'string' ||
    !isTextMap(headers)
  ) {
    throw new ConnectError('this is not a question', Code.InvalidArgument);
  }
  return { key, headers, method, path };
}

function isTextMap(value: unknown): value is Readonly<Record<string, string>> {
  return isRecord(value) && Object.values(value).every((each) => typeof each === 'string');
}

/** Protobuf names failure policies by the constants of its enumeration. */
function protoJson(wire: WireAnswer): string {
  const policy = FAILURE_POLICIES.find(
    ({ name }) =>
      name.replace('FAILURE_POLICY_', '').replaceAll('_', '').toLowerCase() === wire['failure_policy'],
  );
  return JSON.stringify({ ...wire, failure_policy: policy?.name });
}

function sendProtobuf(response: ServiceReply, wire: WireAnswer): void {
  const body = toBinary(responseMessage, fromJsonString(responseMessage, protoJson(wire)));
  response.writeHead(200, { 'content-type': 'application/protobuf', 'content-length': body.length });
  response.end(body);
}

function send(response: ServiceReply, status: number, value: WireAnswer): void {
  if (response.headersSent) return;
  const body = JSON.stringify(value);
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

async function listen(
  handler: LimitsService['handler'],
  { host = '127.0.0.1', port, grpcPort, grpcTls }: ListenOptions,
): Promise<ListeningService> {
  const closers: (() => Promise<void>)[] = [];
  const start = async (server: Server, at: number): Promise<string> => {
    const sockets = new Set<{ destroy(): void }>();
    server.on('connection', (socket) => {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
    });
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(at, host, resolve);
    });
    closers.push(async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    });
    return `${host.includes(':') ? `[${host}]` : host}:${portOf(server.address())}`;
  };
  const close = async (): Promise<void> => {
    await Promise.all(closers.map(async (closeOne) => closeOne()));
  };
  try {
    const address = port === undefined ? undefined : await start(createServer(handler), port);
    const grpcServer =
      grpcTls === undefined ? createHttp2Server(handler) : createSecureServer({ ...grpcTls }, handler);
    const grpcAddress = grpcPort === undefined ? undefined : await start(grpcServer, grpcPort);
    return { url: address === undefined ? undefined : `http://${address}/limits`, grpcAddress, close };
  } catch (failure) {
    // The caller has nothing to close the other port with.
    await close();
    throw failure;
  }
}

function portOf(address: AddressInfo | string | null): number {
  return typeof address === 'object' && address !== null ? address.port : 0;
}

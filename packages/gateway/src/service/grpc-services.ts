// What the service offers over gRPC.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { create, toBinary, type DescFile, type Message } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import {
  Code,
  ConnectError,
  createContextKey,
  createContextValues,
  type ConnectRouter,
} from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import type { Log } from '../telemetry/logger.ts';
import { checkAuthorization } from './forward-auth/ext-authz.ts';
import { ServiceProblem } from './http/call.ts';
import { answerRls, requestIn } from './rls/rls-answer.ts';
import { RlsError, type RlsErrorCode, type RlsRequest } from './rls/descriptor-limits.ts';
import type { ServiceSnapshot } from './snapshot.ts';
import { registry, serverStreamNamed, streamNamed, unaryNamed } from './wire/proto-registry.ts';
import { readRlsRequest, writeRlsResponse, type RlsResponse } from './wire/rls-codec.ts';

export interface GrpcServicesOptions {
  readonly snapshot: () => ServiceSnapshot;
  /** Whether a decision can be made now. */
  readonly isServing: () => Promise<boolean>;
  /** Hears how each call ended, by the class of an HTTP status. */
  readonly answered: (endpoint: string, status: number) => void;
  readonly log: Log;
}

type GrpcHandler = (
  request: IncomingMessage | Http2ServerRequest,
  response: ServerResponse | Http2ServerResponse,
) => void;

const MAX_MESSAGE_BYTES = 2 ** 20;
const peerKey = createContextKey<string | undefined>(undefined);

const RATE_LIMIT = 'envoy.service.ratelimit.v3.RateLimitService';
const EXT_AUTHZ = 'envoy.service.auth.v3.Authorization';
const HEALTH = 'grpc.health.v1.Health';

export function grpcServices(options: GrpcServicesOptions): GrpcHandler {
  const others = connectNodeAdapter({
    routes: (router) => {
      addDecisions(router, options);
      addHealth(router, options);
      for (const version of ['v1', 'v1alpha']) addReflection(router, `grpc.reflection.${version}`);
    },
    connect: false,
    grpcWeb: false,
    readMaxBytes: MAX_MESSAGE_BYTES,
    contextValues: ({ socket }) => createContextValues().set(peerKey, socket.remoteAddress),
  });
  const shouldRateLimit: UnaryCall<RlsRequest> = {
    read: readRlsRequest,
    answer: async (request) => writeRlsResponse(await answerRateLimit(request, options)),
    asError: (failure) => asConnectError(failure, options),
    maxBytes: MAX_MESSAGE_BYTES,
  };
  return (request, response) => {
    if (
      request.url === RATE_LIMIT_PATH &&
      request instanceof Http2ServerRequest &&
      response instanceof Http2ServerResponse &&
      isPlainUnary(request)
    ) {
      serveUnary(request, response, shouldRateLimit);
    } else others(request, response);
  };
}

function addDecisions(router: ConnectRouter, options: GrpcServicesOptions): void {
  const { snapshot } = options;
  router.rpc(SHOULD_RATE_LIMIT, async (message: Message) => ({
    ...(await answerRateLimit(requestIn(message), options)),
  }));
  router.rpc(unaryNamed(`${EXT_AUTHZ}/Check`), async (message: Message, { values }) =>
    counted(options, 'checkAuthorization', async () =>
      checkAuthorization(message, values.get(peerKey), snapshot()),
    ),
  );
}

const SHOULD_RATE_LIMIT = unaryNamed(`${RATE_LIMIT}/ShouldRateLimit`);
const RATE_LIMIT_PATH = `/${RATE_LIMIT}/ShouldRateLimit`;

async function answerRateLimit(request: RlsRequest, options: GrpcServicesOptions): Promise<RlsResponse> {
  return counted(options, 'shouldRateLimit', async () => {
    const { fields } = await answerRls(request, options.snapshot());
    return fields;
  });
}

async function counted<Fields>(
  options: GrpcServicesOptions,
  endpoint: string,
  answer: () => Promise<Fields>,
): Promise<Fields> {
  try {
    const fields = await answer();
    options.answered(endpoint, 200);
    return fields;
  } catch (failure) {
    const error = asConnectError(failure, options);
    options.answered(endpoint, error.code === Code.Unavailable || error.code === Code.Internal ? 500 : 400);
    throw error;
  }
}

const CODES: Readonly<Record<RlsErrorCode, Code>> = {
  invalid: Code.InvalidArgument,
  unavailable: Code.Unavailable,
  unimplemented: Code.Unimplemented,
};

function asConnectError(failure: unknown, { snapshot, log }: GrpcServicesOptions): ConnectError {
  if (failure instanceof ConnectError) return failure;
  if (failure instanceof RlsError) {
    // The reference server has one code for everything.
    const strict = snapshot().config.service?.rls.compat === 'strict';
    return new ConnectError(failure.message, strict ? Code.Unknown : CODES[failure.code]);
  }
  if (failure instanceof ServiceProblem) {
    const code = failure.code === 'UNTRUSTED_PROXY' ? Code.PermissionDenied : Code.InvalidArgument;
    return new ConnectError(failure.message, code);
  }
  log.error({ err: failure }, 'a gRPC call of the service failed');
  return new ConnectError('this is a mistake in the service; its log says more', Code.Internal);
}

/** Names that health is known for; all of them stand and fall together. */
const HEALTHY_NAMES: ReadonlySet<string> = new Set(['', 'ratelimit', RATE_LIMIT, EXT_AUTHZ]);
const SERVING = 1;
const NOT_SERVING = 2;
const SERVICE_UNKNOWN = 3;
const WATCH_EVERY_MS = 1000;

function addHealth(router: ConnectRouter, { isServing }: GrpcServicesOptions): void {
  const statusOf = async (name: string): Promise<number> => {
    if (!HEALTHY_NAMES.has(name)) return SERVICE_UNKNOWN;
    return (await isServing()) ? SERVING : NOT_SERVING;
  };
  router.rpc(unaryNamed(`${HEALTH}/Check`), async (message: Message) => {
    const status = await statusOf(serviceIn(message));
    if (status === SERVICE_UNKNOWN) throw new ConnectError('unknown service', Code.NotFound);
    return { status };
  });
  router.rpc(serverStreamNamed(`${HEALTH}/Watch`), async function* watch(message: Message, { signal }) {
    let last: number | undefined;
    while (!signal.aborted) {
      const status = await statusOf(serviceIn(message));
      if (status !== last) yield { status };
      last = status;
      await passed(WATCH_EVERY_MS, signal);
    }
  });
}

async function passed(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    timer.unref();
    signal.addEventListener('abort', end, { once: true });
  });
}

function serviceIn(message: Message): string {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- read by the descriptor of HealthCheckRequest
  return (message as unknown as { readonly service: string }).service;
}

/** `ServerReflectionRequest`, as its descriptor reads it. */
interface ReflectionMessage {
  readonly messageRequest: {
    readonly case?: 'fileByFilename' | 'fileContainingSymbol' | 'listServices';
    readonly value?: string;
  };
}

const RPC_NOT_FOUND = 5;

function addReflection(router: ConnectRouter, name: string): void {
  const method = streamNamed(`${name}.ServerReflection/ServerReflectionInfo`);
  router.rpc(method, async function* reflect(messages: AsyncIterable<Message>) {
    for await (const message of messages) {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- read by the descriptor of ServerReflectionRequest
      const { messageRequest } = message as unknown as ReflectionMessage;
      yield {
        originalRequest: create(method.input, { ...message }),
        messageResponse: reflected(messageRequest),
      };
    }
  });
}

function reflected({ case: kind, value = '' }: ReflectionMessage['messageRequest']): object {
  if (kind === 'listServices') {
    const services = [...registry].flatMap((desc) =>
      desc.kind === 'service' ? [{ name: desc.typeName }] : [],
    );
    return { case: 'listServicesResponse', value: { service: services } };
  }
  const file = kind === 'fileByFilename' ? registry.getFile(value) : fileWith(value);
  if (file === undefined) {
    return {
      case: 'errorResponse',
      value: { errorCode: RPC_NOT_FOUND, errorMessage: `there is no ${value}` },
    };
  }
  return { case: 'fileDescriptorResponse', value: { fileDescriptorProto: withImports(file).map(bytesOf) } };
}

/** The file that a message, an enum, a service or a method of it stands in. */
function fileWith(symbol: string): DescFile | undefined {
  const found = registry.get(symbol) ?? registry.get(symbol.slice(0, Math.max(0, symbol.lastIndexOf('.'))));
  return found === undefined || found.kind === 'extension' ? undefined : found.file;
}

function withImports(file: DescFile): readonly DescFile[] {
  const files = new Set([file]);
  for (const each of files) for (const imported of each.dependencies) files.add(imported);
  return [...files];
}

function bytesOf({ proto }: DescFile): Uint8Array {
  return toBinary(FileDescriptorProtoSchema, proto);
}

// One unary gRPC call without a router: the call that Envoy makes for every request takes half the processor time this
// way.
export interface UnaryCall<Request> {
  /** Throws for bytes that are no such message. */
  readonly read: (bytes: Uint8Array) => Request;
  /** The bytes of the answer. Rejects with a `ConnectError`. */
  readonly answer: (request: Request) => Promise<Uint8Array>;
  readonly asError: (failure: unknown) => ConnectError;
  readonly maxBytes: number;
}

const FRAME_HEAD = 5;

/** Whether a call is so simple: neither compressed nor of another encoding than protobuf. */
function isPlainUnary({
  headers,
  httpVersionMajor,
}: Pick<Http2ServerRequest, 'headers' | 'httpVersionMajor'>): boolean {
  const { 'grpc-encoding': encoding = 'identity', 'content-type': type } = headers;
  return (
    httpVersionMajor === 2 &&
    encoding === 'identity' &&
    (type === 'application/grpc' || type === 'application/grpc+proto')
  );
}

function serveUnary<Request>(
  request: Http2ServerRequest,
  response: Http2ServerResponse,
  call: UnaryCall<Request>,
): void {
  const chunks: Buffer[] = [];
  let length = 0;
  request.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length <= call.maxBytes + FRAME_HEAD) chunks.push(chunk);
  });
  request.once('end', () => {
    const body = chunks.length === 1 ? (chunks[0] ?? Buffer.alloc(0)) : Buffer.concat(chunks);
    void answerCall(response, call, { body, length });
  });
}

async function answerCall<Request>(
  response: Http2ServerResponse,
  call: UnaryCall<Request>,
  sent: { readonly body: Buffer; readonly length: number },
): Promise<void> {
  const problem = frameProblem(sent, call.maxBytes);
  if (problem !== undefined) {
    endCall(response, problem);
    return;
  }
  let request: Request;
  try {
    request = call.read(sent.body.subarray(FRAME_HEAD));
  } catch (failure) {
    const why = failure instanceof Error ? failure.message : String(failure);
    endCall(response, { status: Code.InvalidArgument, message: `the message cannot be read: ${why}` });
    return;
  }
  try {
    endCall(response, { status: 0, bytes: await call.answer(request) });
  } catch (failure) {
    const { code, rawMessage } = call.asError(failure);
    endCall(response, { status: code, message: rawMessage });
  }
}

/** What is wrong with the frame of a message. */
function frameProblem(
  { body, length }: { readonly body: Buffer; readonly length: number },
  maxBytes: number,
): UnaryEnd | undefined {
  if (length > maxBytes + FRAME_HEAD) {
    return { status: Code.ResourceExhausted, message: `the message has more than ${maxBytes} bytes` };
  }
  if (body.length < FRAME_HEAD || body[0] !== 0 || body.readUInt32BE(1) !== body.length - FRAME_HEAD) {
    return { status: Code.InvalidArgument, message: 'the body is not one message of gRPC' };
  }
  return undefined;
}

interface UnaryEnd {
  readonly status: number;
  readonly message?: string | undefined;
  readonly bytes?: Uint8Array | undefined;
}

const NOT_IN_MESSAGE = /[^ -$&-~]+/gu;

function endCall(response: Http2ServerResponse, { status, message, bytes }: UnaryEnd): void {
  const { stream } = response;
  if (stream.destroyed || stream.headersSent) return;
  const trailers = {
    'grpc-status': String(status),
    ...(message === undefined ? {} : { 'grpc-message': message.replace(NOT_IN_MESSAGE, encodeURIComponent) }),
  };
  const headers = { ':status': 200, 'content-type': 'application/grpc+proto' };
  if (bytes === undefined) {
    stream.respond({ ...headers, ...trailers }, { endStream: true });
    return;
  }
  response.addTrailers({ 'grpc-status': '0' });
  stream.respond(headers, { waitForTrailers: true });
  const frame = Buffer.allocUnsafe(FRAME_HEAD + bytes.length);
  frame.writeUInt8(0, 0);
  frame.writeUInt32BE(bytes.length, 1);
  frame.set(bytes, FRAME_HEAD);
  stream.end(frame);
}

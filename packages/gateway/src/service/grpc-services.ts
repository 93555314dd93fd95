// What the service offers over gRPC; of that, Envoy's `ext_authz` meets a request with the rules of the gateway.
import type { IncomingHttpHeaders } from 'node:http2';
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
import type { Log } from '../telemetry/log.ts';
import type { TracedCall } from '../telemetry/tracing.ts';
import {
  decideAsked,
  requireTrusted,
  type AskedDecision,
  type AskedRequest,
} from './forward-auth/forward-auth-endpoints.ts';
import { linesOf, ServiceProblem, type CallRequest, type CallResponse } from './http/call.ts';
import type { ServiceStream } from './http2/stream.ts';
import { RlsError, type RlsErrorCode, type RlsRequest } from './rls/descriptor-limits.ts';
import { answerRls, requestIn } from './rls/rls-answer.ts';
import type { ServiceSnapshot } from './snapshot.ts';
import { FRAME_HEAD, isPlainUnary, serveUnary, type UnaryCall } from './unary-stream.ts';
import { registry, serverStreamNamed, streamNamed, unaryNamed } from './wire/proto-registry.ts';
import { readRlsRequest, writeRlsResponse, type RlsResponse } from './wire/rls-codec.ts';

interface GrpcServicesOptions {
  readonly snapshot: () => ServiceSnapshot;
  /** Whether a decision can be made now. */
  readonly isServing: () => Promise<boolean>;
  /** Hears how each call ended, by the class of an HTTP status. */
  readonly answered: (endpoint: string, status: number) => void;
  readonly log: Log;
}

/** The services of gRPC. */
interface GrpcServices {
  /** Any call, in the way that Node.js shows requests. */
  readonly serve: (request: CallRequest, response: CallResponse) => void;
  /** Whether a call is the one that Envoy makes for every request: `serveStream` answers it right on its stream. */
  readonly takesStream: (headers: IncomingHttpHeaders) => boolean;
  readonly serveStream: (stream: ServiceStream) => void;
}

const MAX_MESSAGE_BYTES = 2 ** 20;
const peerKey = createContextKey<string | undefined>(undefined);

const RATE_LIMIT = 'envoy.service.ratelimit.v3.RateLimitService';
const EXT_AUTHZ = 'envoy.service.auth.v3.Authorization';
const HEALTH = 'grpc.health.v1.Health';

export function grpcServices(options: GrpcServicesOptions): GrpcServices {
  const serve = connectNodeAdapter({
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
    answer: async (request, headers) =>
      writeRlsResponse(await answerRateLimit(request, linesOf(headers), options), FRAME_HEAD),
    asError: (failure) => asConnectError(failure, options),
    maxBytes: MAX_MESSAGE_BYTES,
  };
  return {
    serve,
    takesStream: (headers) => isPlainUnary(headers, RATE_LIMIT_PATH),
    serveStream: (stream) => serveUnary(stream, shouldRateLimit),
  };
}

function addDecisions(router: ConnectRouter, options: GrpcServicesOptions): void {
  router.rpc(SHOULD_RATE_LIMIT, async (message: Message, { requestHeader }) => ({
    ...(await answerRateLimit(requestIn(message), linesIn(requestHeader), options)),
  }));
  router.rpc(unaryNamed(CHECK_AUTHORIZATION), async (message: Message, { values, requestHeader }) => {
    const call = { endpoint: 'checkAuthorization', name: CHECK_AUTHORIZATION } as const;
    const lines = linesIn(requestHeader);
    // Envoy tells of its own trace, else of the request that it asks about.
    const headers = lines('traceparent').length > 0 ? lines : askedLines(message);
    return followed(options, { ...call, headers: { lines: headers } }, async (snapshot) => {
      const { allowed, fields } = await checkAuthorization(message, values.get(peerKey), snapshot);
      return { fields, denied: !allowed };
    });
  });
}

const SHOULD_RATE_LIMIT_NAME = `${RATE_LIMIT}/ShouldRateLimit`;
const SHOULD_RATE_LIMIT = unaryNamed(SHOULD_RATE_LIMIT_NAME);
const RATE_LIMIT_PATH = `/${SHOULD_RATE_LIMIT_NAME}`;
const CHECK_AUTHORIZATION = `${EXT_AUTHZ}/Check`;

type HeaderLines = TracedCall['headers']['lines'];

function linesIn(headers: Headers): HeaderLines {
  return (name) => [headers.get(name) ?? []].flat();
}

async function answerRateLimit(
  request: RlsRequest,
  lines: HeaderLines,
  options: GrpcServicesOptions,
): Promise<RlsResponse> {
  const call = { endpoint: 'shouldRateLimit', name: SHOULD_RATE_LIMIT_NAME, headers: { lines } };
  return followed(options, call, async (snapshot) => {
    const { fields, over } = await answerRls(request, snapshot);
    return { fields, denied: over };
  });
}

/** A call that decides: how it ended is counted, and traced where that is configured. */
interface DecidingRpc extends Pick<TracedCall, 'name' | 'headers'> {
  readonly endpoint: string;
}

async function followed<Fields>(
  options: GrpcServicesOptions,
  { endpoint, name, headers }: DecidingRpc,
  answer: (snapshot: ServiceSnapshot) => Promise<{ readonly fields: Fields; readonly denied: boolean }>,
): Promise<Fields> {
  const snapshot = options.snapshot();
  const trace = snapshot.tracer?.({ name, protocol: 'grpc', headers });
  try {
    const { fields, denied } = await answer(snapshot);
    options.answered(endpoint, 200);
    trace?.end({ status: 0, decided: { checks: 1, denied: denied ? 1 : 0 } });
    return fields;
  } catch (failure) {
    const error = asConnectError(failure, options);
    options.answered(endpoint, error.code === Code.Unavailable || error.code === Code.Internal ? 500 : 400);
    trace?.end({ status: error.code });
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

/** `CheckRequest`, as its descriptor reads it. */
interface CheckRequestMessage {
  readonly attributes?: {
    readonly source?: { readonly address?: { readonly socketAddress?: { readonly address: string } } };
    readonly request?: { readonly http?: HttpAttributes };
  };
}

interface HttpAttributes {
  readonly method: string;
  readonly path: string;
  readonly host: string;
  readonly scheme: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly headerMap?: { readonly headers: readonly RawHeader[] };
}

interface RawHeader {
  readonly key: string;
  readonly value: string;
  readonly rawValue: Uint8Array;
}

const RPC_OK = 0;
const RPC_PERMISSION_DENIED = 7;
const RPC_RESOURCE_EXHAUSTED = 8;
/** Headers about limits replace those of the service behind Envoy. */
const OVERWRITE = 2;

/** What Envoy gets: the fields of a `CheckResponse`. */
interface EnvoyAnswer {
  readonly allowed: boolean;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Throws a `ServiceProblem` for a proxy that is not trusted, or a request that is none. */
async function checkAuthorization(
  message: Message,
  peer: string | undefined,
  snapshot: ServiceSnapshot,
): Promise<EnvoyAnswer> {
  requireTrusted(peer, snapshot);
  const decision = await decideAsked(askedIn(message, peer), snapshot);
  return { allowed: decision.allowed, fields: responseFields(decision, snapshot) };
}

/** The lines of a header of the request that Envoy asks about. */
function askedLines(message: Message): (name: string) => readonly string[] {
  const { rawHeaders } = askedIn(message, undefined);
  return (name) => rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === name);
}

function responseFields(decision: AskedDecision, snapshot: ServiceSnapshot): EnvoyAnswer['fields'] {
  const { allowed, status, headers, contentType, body } = decision;
  const told = headers.map(([key, value]) => headerOption(key, value));
  if (allowed) {
    return {
      status: { code: RPC_OK },
      httpResponse: {
        case: 'okResponse',
        value: { responseHeadersToAdd: told, ...toUpstream(decision, snapshot) },
      },
    };
  }
  const typed = contentType === undefined ? told : [...told, headerOption('content-type', contentType)];
  return {
    status: { code: status === 429 ? RPC_RESOURCE_EXHAUSTED : RPC_PERMISSION_DENIED },
    httpResponse: { case: 'deniedResponse', value: { status: { code: status }, headers: typed, body } },
  };
}

/** Who is asking, and nothing that a client says about that itself. */
function toUpstream({ identityHeaders }: AskedDecision, { config }: ServiceSnapshot): object {
  const told = new Set(identityHeaders.map(([name]) => name));
  return {
    headers: identityHeaders.map(([name, value]) => headerOption(name, value)),
    headersToRemove: Object.values(config.identity.headers).filter((name) => !told.has(name)),
  };
}

function headerOption(key: string, value: string): object {
  return { header: { key, value }, appendAction: OVERWRITE };
}

function askedIn(message: Message, peer: string | undefined): AskedRequest {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- read by the descriptor of CheckRequest
  const { attributes } = message as unknown as CheckRequestMessage;
  const { method = '', path = '', host = '', scheme = '', ...sent } = attributes?.request?.http ?? {};
  return {
    method,
    scheme,
    host,
    target: path,
    rawHeaders: headersOf(sent),
    // Who is connected to Envoy; behind a proxy that is trusted, X-Forwarded-For says more.
    peer: attributes?.source?.address?.socketAddress?.address ?? peer,
  };
}

function headersOf({
  headers = {},
  headerMap,
}: Partial<Pick<HttpAttributes, 'headers' | 'headerMap'>>): readonly string[] {
  if (headerMap === undefined || headerMap.headers.length === 0) return Object.entries(headers).flat();
  return headerMap.headers.flatMap(({ key, value, rawValue }) => [
    key,
    value === '' ? Buffer.from(rawValue).toString('latin1') : value,
  ]);
}

import { type DescMessage, type DescMethodUnary, toJson } from '@bufbuild/protobuf';
import { StructSchema } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError } from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';
import type { Config } from '../../config/config.ts';
import { getLimits, fromProtoJson } from '../wire/descriptors.ts';
import {
  tlsOptions,
  type FailureReason,
  retryAfterMs,
  type ServiceAuth,
  type ServiceClient,
  ServiceFailure,
} from './service.ts';

type GrpcConfig = NonNullable<Config['rate_limit']['external']['grpc']>;

export interface GrpcServiceOptions {
  readonly grpc: GrpcConfig;
  readonly maxResponseBytes: number;
  readonly auth: ServiceAuth | undefined;
}

/** How soon a connection whose other end is gone is noticed. */
const PINGS = { pingIntervalMs: 10_000, pingTimeoutMs: 5000, pingIdleConnection: false };

/** With JSON the answer is read as it is: services without protobuf write names and words as HTTP would. */
const getLimitsAsJson: DescMethodUnary<DescMessage, typeof StructSchema> = {
  ...getLimits,
  output: StructSchema,
};

/** Calls `GetLimits`, with messages in protobuf or in JSON. */
export function grpcService({ grpc, maxResponseBytes, auth }: GrpcServiceOptions): ServiceClient {
  const { address, tls, codec } = grpc;
  const baseUrl = `${tls.enabled ? 'https' : 'http'}://${address}`;
  const sessionManager = new Http2SessionManager(baseUrl, PINGS, tls.enabled ? tlsOptions(tls) : {});
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager,
    readMaxBytes: maxResponseBytes,
    useBinaryFormat: codec === 'protobuf',
    jsonOptions: { ignoreUnknownFields: true },
  });
  const metadata = auth === undefined ? undefined : { [auth.header]: auth.value };
  const method: DescMethodUnary = codec === 'json' ? getLimitsAsJson : getLimits;
  return {
    id: `grpc ${baseUrl}`,
    ask: async (request, { signal, timeoutMs }) => {
      try {
        const { message } = await transport.unary(method, signal, Math.ceil(timeoutMs), metadata, {
          ...request,
        });
        const json = toJson(method.output, message, { useProtoFieldName: true });
        return { value: fromProtoJson(json), cacheHeaders: undefined };
      } catch (failure) {
        throw asServiceFailure(failure, { signal, codec });
      }
    },
    close: async () => {
      sessionManager.abort();
      return Promise.resolve();
    },
  };
}

interface GrpcCall {
  readonly signal: AbortSignal;
  readonly codec: GrpcConfig['codec'];
}

function asServiceFailure(failure: unknown, { signal, codec }: GrpcCall): ServiceFailure {
  const error = ConnectError.from(failure);
  const reason = signal.aborted ? 'timeout' : reasonOf(error);
  const hint = codec === 'protobuf' && looksLikeJson(error) ? ` (${JSON_HINT})` : '';
  return new ServiceFailure(reason, `the service answered ${Code[error.code]}: ${error.rawMessage}${hint}`, {
    cause: failure,
    // The wall clock: the header may be an HTTP date.
    retryAfterMs: retryAfterMs(error.metadata.get('retry-after'), Date.now()),
  });
}

const JSON_HINT = 'does it speak JSON? Then rate_limit.external.grpc needs codec: json';

/** An answer that is not protobuf, one that says it is JSON, or a service that could not parse our protobuf. */
function looksLikeJson({ rawMessage }: ConnectError): boolean {
  return /^parse binary|grpc\+json|unmarshal|deserializ|\bjson\b|invalid character|unexpected token/i.test(
    rawMessage,
  );
}

function reasonOf({ code, rawMessage }: ConnectError): FailureReason {
  switch (code) {
    case Code.DeadlineExceeded:
      return 'timeout';
    case Code.NotFound:
      return 'unknownKey';
    case Code.ResourceExhausted:
      // The transport reports an answer above its bound with the same code as a service that is asked too often.
      return /readMaxBytes/.test(rawMessage) ? 'tooLarge' : 'rateLimited';
    case Code.Canceled:
    case Code.Unavailable:
      return 'unreachable';
    case Code.InvalidArgument:
    case Code.OutOfRange:
      return 'invalid';
    default:
      // So the transport reports a message that is none.
      return /^parse (?:binary|JSON)/i.test(rawMessage) ? 'invalid' : 'status';
  }
}

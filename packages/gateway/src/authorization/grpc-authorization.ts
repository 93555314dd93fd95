import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';
import type { ClientTls } from '../http-client/index.ts';
import { unaryNamed } from '../service/wire/proto-registry.ts';
import {
  wantedHeaders,
  type AuthorizationAnswer,
  type AuthorizationQuestion,
  type AuthorizationService,
} from './authorization-service.ts';
import type { AuthorizationServiceOptions } from './http-authorization.ts';

interface GrpcAuthorizationOptions extends AuthorizationServiceOptions {
  readonly address: string;
  /** Undefined: without TLS. */
  readonly tls: ClientTls | undefined;
  readonly timeoutMs: number;
}

/** How soon a connection whose other end is gone is noticed. */
const PINGS = { pingIntervalMs: 10_000, pingTimeoutMs: 5000, pingIdleConnection: false };

/** Envoy's `ext_authz` (v3): https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/auth/v3/external_auth.proto */
export function grpcAuthorization(options: GrpcAuthorizationOptions): AuthorizationService {
  const { address, tls, auth, timeoutMs, maxResponseBytes } = options;
  const baseUrl = `${tls === undefined ? 'http' : 'https'}://${address}`;
  const sessionManager = new Http2SessionManager(baseUrl, PINGS, tls ?? {});
  const transport = createGrpcTransport({ baseUrl, sessionManager, readMaxBytes: maxResponseBytes });
  const metadata = auth === undefined ? undefined : { [auth.header]: auth.value };
  const method = unaryNamed('envoy.service.auth.v3.Authorization/Check');
  return {
    ask: async (question, signal) => {
      const { message } = await transport.unary(method, signal, timeoutMs, metadata, checkRequest(question));
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- read by the descriptor of CheckResponse
      const response = message as unknown as CheckResponseMessage;
      return { verdict: verdictOf(response, options), cacheHeaders: undefined };
    },
    close: () => sessionManager.abort(),
  };
}

function checkRequest({
  id,
  method,
  scheme,
  host,
  target,
  client,
  headers,
}: AuthorizationQuestion): Record<string, unknown> {
  const byName: Record<string, string> = {};
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? '';
    const value = headers[at + 1] ?? '';
    byName[name] = byName[name] === undefined ? value : `${byName[name]},${value}`;
  }
  return {
    attributes: {
      source: client === undefined ? undefined : { address: { socketAddress: { address: client } } },
      request: { http: { id, method, headers: byName, path: target, host, scheme } },
    },
  };
}

interface HeaderOption {
  readonly header?: { readonly key: string; readonly value: string; readonly rawValue: Uint8Array };
}

/** `CheckResponse`, as its descriptor reads it. */
interface CheckResponseMessage {
  readonly status?: { readonly code: number };
  readonly httpResponse:
    | { readonly case: 'okResponse'; readonly value: { readonly headers: readonly HeaderOption[] } }
    | {
        readonly case: 'deniedResponse';
        readonly value: {
          readonly status?: { readonly code: number };
          readonly headers: readonly HeaderOption[];
          readonly body: string;
        };
      }
    | { readonly case: undefined };
}

const FORBIDDEN = 403;

function verdictOf(
  { status, httpResponse }: CheckResponseMessage,
  { upstreamHeaders, responseHeaders }: AuthorizationServiceOptions,
): AuthorizationAnswer['verdict'] {
  // Without a status nobody has said yes.
  if (status?.code === 0) {
    const headers = httpResponse.case === 'okResponse' ? httpResponse.value.headers : [];
    return { allowed: true, headers: wantedHeaders(flat(headers), upstreamHeaders) };
  }
  if (httpResponse.case !== 'deniedResponse') {
    return { allowed: false, status: FORBIDDEN, headers: [], body: '' };
  }
  const { body, headers, status: http } = httpResponse.value;
  const code = http?.code ?? FORBIDDEN;
  if (code < 300 || code > 599) throw new Error(`the service refused with the status ${code}`);
  const typed = body === '' ? responseHeaders : new Set([...responseHeaders, 'content-type']);
  return { allowed: false, status: code, headers: wantedHeaders(flat(headers), typed), body };
}

function flat(headers: readonly HeaderOption[]): readonly string[] {
  return headers.flatMap(({ header }) => {
    if (header === undefined) return [];
    const value = header.value === '' ? Buffer.from(header.rawValue).toString('latin1') : header.value;
    return [header.key, value];
  });
}

import { headerLines, serviceAt, type ClientTls } from '../http-client/index.ts';
import {
  wantedHeaders,
  type AuthorizationAnswer,
  type AuthorizationQuestion,
  type AuthorizationService,
} from './authorization-service.ts';

export interface AuthorizationServiceOptions {
  readonly auth: { readonly header: string; readonly value: string } | undefined;
  readonly maxResponseBytes: number;
  /** In lower case. */
  readonly upstreamHeaders: ReadonlySet<string>;
  readonly responseHeaders: ReadonlySet<string>;
}

interface HttpAuthorizationOptions extends AuthorizationServiceOptions {
  readonly url: string;
  readonly tls: ClientTls;
  readonly timeoutMs: number;
  readonly maxConnections: number;
}

/**
 * Forward auth, as nginx and Traefik ask: a GET with `X-Forwarded-*`. 2xx lets the request pass, 3xx and 4xx are the
 * answer to the client, and everything else is a failure of the service.
 */
export function httpAuthorization(options: HttpAuthorizationOptions): AuthorizationService {
  const { url, tls, auth, timeoutMs, maxConnections, maxResponseBytes } = options;
  const service = serviceAt(url, { tls, timeoutMs, maxConnections });
  return {
    ask: async (question, signal) => {
      const response = await service.fetch({
        method: 'GET',
        headers: [...forwardedHeaders(question), ...(auth === undefined ? [] : [auth.header, auth.value])],
        // Also of a yes, which nobody reads: the connection can be used again only behind it.
        maxBodyBytes: (status) => (status < 500 ? maxResponseBytes : 0),
        signal,
      });
      return answerOf(response, options);
    },
    close: () => void service.close(),
  };
}

function forwardedHeaders({
  id,
  method,
  scheme,
  host,
  target,
  client,
  headers,
}: AuthorizationQuestion): string[] {
  const sent = [
    'x-forwarded-method',
    method,
    'x-forwarded-proto',
    scheme,
    'x-forwarded-host',
    host,
    'x-forwarded-uri',
    target,
    'x-request-id',
    id,
    ...headers,
  ];
  if (client !== undefined) sent.push('x-forwarded-for', client);
  return sent;
}

interface ServiceResponse {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: Uint8Array;
  readonly truncated: boolean;
}

function answerOf(
  { status, headers, body, truncated }: ServiceResponse,
  { upstreamHeaders, responseHeaders }: AuthorizationServiceOptions,
): AuthorizationAnswer {
  const cacheHeaders = {
    cacheControl: headerLines(headers, 'cache-control'),
    expires: headerLines(headers, 'expires'),
    date: headerLines(headers, 'date')[0],
    age: headerLines(headers, 'age')[0],
  };
  if (status >= 200 && status < 300) {
    return { verdict: { allowed: true, headers: wantedHeaders(headers, upstreamHeaders) }, cacheHeaders };
  }
  if (status < 300 || status >= 500) throw new Error(`the service answered ${status}`);
  // What is packed stays packed nowhere: the client did not ask for it.
  const isPlain = headerLines(headers, 'content-encoding').length === 0;
  const text = truncated || !isPlain ? '' : Buffer.from(body).toString('utf8');
  const typed = text === '' ? responseHeaders : new Set([...responseHeaders, 'content-type']);
  return {
    verdict: { allowed: false, status, headers: wantedHeaders(headers, typed), body: text },
    cacheHeaders,
  };
}

import { z } from 'zod';
import { bearerTokens, WRONG_TOKENS, WRONG_TOKEN_WAIT_SECONDS } from '../../api/bearer-token.ts';
import { openApiDocument, operationOf, type OpenApiPart } from '../../api/open-api.ts';
import { shown } from '../../config/shown.ts';
import { ThrottledWarning, type Log } from '../../telemetry/log.ts';
import type { CallTrace } from '../../telemetry/tracing.ts';
import { FORWARD_AUTH_ENDPOINTS } from '../forward-auth/forward-auth-endpoints.ts';
import { JSON_RLS_ENDPOINT } from '../rls/rls-answer.ts';
import type { ServiceSnapshot } from '../snapshot.ts';
import {
  jsonReply,
  type ServiceEndpoint,
  SERVICE_PROBLEMS,
  type ServiceProblemCode,
  callOf,
  linesOf,
  problemReply,
  type CallRequest,
  type CallResponse,
  type ServiceCall,
  type CallReply,
  ServiceProblem,
  type EndpointParts,
} from './call.ts';
import { CHECK_ENDPOINTS } from './check-endpoints.ts';

/** The one table of the service's HTTP endpoints. */
const SERVICE_ENDPOINTS: readonly ServiceEndpoint[] = [
  ...CHECK_ENDPOINTS,
  ...FORWARD_AUTH_ENDPOINTS,
  JSON_RLS_ENDPOINT,
  {
    id: 'healthcheck',
    method: 'GET',
    path: '/healthcheck',
    summary: 'Whether a decision can be made now: `OK`, or a 500 that says why not.',
    access: 'open',
    answers: {
      200: { description: '`OK`', schema: undefined },
      500: { description: 'It drains, or the store cannot decide.', schema: undefined },
    },
    problems: [],
    async handle(_, { storeProblem, draining }) {
      const problem = draining() ? 'draining' : await storeProblem();
      return { status: problem === undefined ? 200 : 500, contentType: 'text/plain', body: problem ?? 'OK' };
    },
  },
  {
    id: 'openapi',
    method: 'GET',
    path: '/openapi.json',
    summary: 'This API as an OpenAPI 3.1 document.',
    access: 'open',
    answers: { 200: { description: 'The document.', schema: z.record(z.string(), z.unknown()) } },
    problems: [],
    handle: (_, { version }) => jsonReply(serviceOpenApi(SERVICE_ENDPOINTS, version)),
  },
];

const problemSchema = z.strictObject({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string().meta({ description: 'The value, what was expected, and what to do.' }),
  code: z.enum(Object.keys(SERVICE_PROBLEMS)),
});

const SECURITY_SCHEMES = {
  token: {
    type: 'http',
    scheme: 'bearer',
    description: 'The setting `service.token`; not needed where there is none.',
  },
  proxyToken: {
    type: 'apiKey',
    in: 'header',
    name: 'X-Spillgate-Token',
    description: 'The same for proxies, whose `Authorization` is that of their client.',
  },
};

function serviceOpenApi(endpoints: readonly ServiceEndpoint[], version: string): OpenApiPart {
  return openApiDocument({
    title: 'Spillgate decision service',
    version,
    description: 'Decisions about rate limits for applications in any language.',
    paths: Object.fromEntries(endpoints.map((endpoint) => [endpoint.path, pathItem(endpoint)])),
    problem: problemSchema,
    securitySchemes: SECURITY_SCHEMES,
  });
}

function pathItem(endpoint: ServiceEndpoint): OpenApiPart {
  const { id, summary, access, body, answers } = endpoint;
  const methods = endpoint.method === 'ANY' ? ['get', 'post'] : [endpoint.method.toLowerCase()];
  return Object.fromEntries(
    methods.map((method) => [
      method,
      operationOf(SERVICE_PROBLEMS, {
        operationId: methods.length === 1 ? id : `${id}-${method}`,
        summary,
        scheme: access === 'token' ? 'token' : access === 'proxy' ? 'proxyToken' : undefined,
        body,
        answers,
        problems: problemsOf(endpoint),
      }),
    ]),
  );
}

function problemsOf({ access, body, problems }: ServiceEndpoint): readonly ServiceProblemCode[] {
  return [
    ...problems,
    ...(access === 'open' ? [] : (['TOKEN_REQUIRED', 'TOO_MANY_FAILURES'] as const)),
    ...(body === undefined ? [] : (['INVALID_REQUEST', 'BODY_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE'] as const)),
    'INTERNAL',
  ];
}

interface DeskOptions {
  readonly log: Log;
  readonly parts: () => EndpointParts;
  /** Every response is the last one of its connection. */
  readonly lastOfConnection: (request: CallRequest) => boolean;
  /** Hears how each call ended. */
  readonly answered: (endpoint: string, status: number) => void;
}

interface TokenBearer extends Pick<ServiceCall, 'peer'> {
  readonly headers: CallRequest['headers'];
}

/** Takes calls over HTTP to the endpoint that answers them, and every failure to an answer. */
export class ServiceDesk {
  private readonly options: DeskOptions;
  private readonly standingOf = bearerTokens();
  private readonly wrongTokens: ThrottledWarning;

  constructor(options: DeskOptions) {
    this.options = options;
    this.wrongTokens = new ThrottledWarning(options.log, 'a call of the service had no valid token');
  }

  async serve(request: CallRequest, response: CallResponse): Promise<void> {
    const call = callOf(request);
    let endpoint: ServiceEndpoint | undefined;
    let trace: CallTrace | undefined;
    let reply: CallReply;
    try {
      endpoint = endpointOf(call);
      const parts = this.options.parts();
      if (endpoint.access !== 'open') {
        this.requireToken({ headers: request.headers, peer: call.peer }, endpoint.access);
        trace = traceOf(call, endpoint, parts.snapshot);
      }
      reply = await endpoint.handle(call, parts);
    } catch (failure) {
      reply = problemReply(failure instanceof ServiceProblem ? failure : this.unexpected(failure));
    }
    trace?.end(reply);
    this.options.answered(endpoint?.id ?? 'unknown', reply.status);
    this.send(request, response, reply);
  }

  /** What ends a gRPC call without the token; undefined if it has it. */
  tokenProblem(headers: CallRequest['headers'], peer: () => string | undefined): ServiceProblem | undefined {
    if (this.options.parts().snapshot.config.service?.token === undefined) return undefined;
    try {
      this.requireToken({ headers, peer: peer() }, 'token');
      return undefined;
    } catch (failure) {
      if (failure instanceof ServiceProblem) return failure;
      throw failure;
    }
  }

  /** Throws the problem that ends a call without the token. */
  private requireToken({ headers, peer }: TokenBearer, access: 'token' | 'proxy'): void {
    const { authorization = '', 'x-spillgate-token': ofProxy = '' } = headers;
    const shownToken = access === 'token' ? authorization : ofProxy === '' ? '' : `Bearer ${String(ofProxy)}`;
    const { token } = this.options.parts().snapshot.config.service ?? {};
    switch (this.standingOf(peer, shownToken, { token })) {
      case 'accepted':
        return;
      case 'tooManyWrong':
        throw new ServiceProblem(
          'TOO_MANY_FAILURES',
          `${peer ?? 'This address'} sent ${WRONG_TOKENS.burst} wrong tokens; expected at most ${WRONG_TOKENS.average} in a minute: wait ${WRONG_TOKEN_WAIT_SECONDS} seconds, then send the right one.`,
          { headers: { 'retry-after': String(WRONG_TOKEN_WAIT_SECONDS) } },
        );
      default:
        this.wrongTokens.warn({ remote: peer });
        throw new ServiceProblem(
          'TOKEN_REQUIRED',
          `Send the token of the service as "${access === 'token' ? 'Authorization: Bearer ...' : 'X-Spillgate-Token: ...'}"; it is the setting service.token.`,
          { headers: { 'www-authenticate': 'Bearer realm="spillgate"' } },
        );
    }
  }

  private unexpected(failure: unknown): ServiceProblem {
    this.options.log.error({ err: failure }, 'a call of the service failed');
    return new ServiceProblem('INTERNAL', 'This is a mistake in the service; its log says more.');
  }

  private send(request: CallRequest, response: CallResponse, reply: CallReply): void {
    const { status, contentType, body, headers = [] } = reply;
    const lines: Record<string, string | number | string[]> = {};
    for (const [name, value] of headers) append(lines, name.toLowerCase(), value);
    if (contentType !== undefined) lines['content-type'] = contentType;
    if (status !== 204) lines['content-length'] = Buffer.byteLength(body);
    lines['cache-control'] = 'no-store';
    // What is left of a body that nobody wants would be read as the next request.
    const isLast = !request.complete || this.options.lastOfConnection(request);
    if (request.httpVersionMajor === 1 && isLast) lines['connection'] = 'close';
    response.writeHead(status, lines);
    response.end(request.method === 'HEAD' || status === 204 ? '' : body);
  }
}

/** Probes leave no traces, nor do callers without the token. */
function traceOf(
  { request, method }: ServiceCall,
  { path }: ServiceEndpoint,
  { tracer }: ServiceSnapshot,
): CallTrace | undefined {
  const headers = { lines: linesOf(request.headers) };
  return tracer?.({ name: `${method} ${path}`, protocol: 'http', headers });
}

function append(lines: Record<string, string | number | string[]>, name: string, value: string): void {
  const known = lines[name];
  if (known === undefined) lines[name] = value;
  else if (Array.isArray(known)) known.push(value);
  else lines[name] = [String(known), value];
}

const BY_PATH: ReadonlyMap<string, ServiceEndpoint> = new Map(
  SERVICE_ENDPOINTS.map((endpoint) => [endpoint.path, endpoint]),
);
const WITH_MORE = SERVICE_ENDPOINTS.filter(({ below }) => below === true);

function endpointOf({ method, path }: ServiceCall): ServiceEndpoint {
  const endpoint = BY_PATH.get(path) ?? WITH_MORE.find(({ path: prefix }) => path.startsWith(`${prefix}/`));
  if (endpoint === undefined) {
    throw new ServiceProblem(
      'NOT_FOUND',
      `The path is ${shown(path)}; GET /openapi.json lists what there is.`,
    );
  }
  const asked = method === 'HEAD' ? 'GET' : method;
  if (endpoint.method === 'ANY' || endpoint.method === asked) return endpoint;
  const allow = endpoint.method === 'GET' ? 'GET, HEAD' : endpoint.method;
  throw new ServiceProblem('METHOD_NOT_ALLOWED', `The method is ${shown(method)}; expected ${allow}.`, {
    headers: { allow },
  });
}

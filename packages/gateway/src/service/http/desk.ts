import { shown } from '../../config/shown.ts';
import { bearerTokens, WRONG_TOKENS, WRONG_TOKEN_WAIT_SECONDS } from '../../api/bearer-token.ts';
import { ThrottledWarning, type Log } from '../../telemetry/log.ts';
import type { CallTrace } from '../../telemetry/tracing.ts';
import type { ServiceSnapshot } from '../snapshot.ts';
import {
  callOf,
  linesOf,
  problemReply,
  type CallRequest,
  type CallResponse,
  type ServiceCall,
  type CallReply,
  ServiceProblem,
  type EndpointParts,
  type ServiceEndpoint,
} from './call.ts';
import { SERVICE_ENDPOINTS } from './endpoints.ts';

export interface DeskOptions {
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

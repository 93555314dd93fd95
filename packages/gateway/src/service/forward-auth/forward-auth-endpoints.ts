import type { Delay, HeaderPair } from 'spillgate/http';
import { shown } from '../../config/shown.ts';
import { identityHeaders } from '../../identity/identity.ts';
import type { RequestHead } from '../../proxy/exchange.ts';
import { errorAnswer, refusalText, type AnswerText } from '../../proxy/gateway-errors.ts';
import { readingRules, readRequest, requestIdOf } from '../../proxy/request/read-request.ts';
import type { DelayListener } from '../../rules/rule-outcome.ts';
import {
  type CallReply,
  type CallRequest,
  type ServiceCall,
  ServiceProblem,
  type EndpointParts,
  type ServiceEndpoint,
} from '../http/call.ts';
import type { ServiceSnapshot } from '../snapshot.ts';

const FORWARD_AUTH = '/v1/forward-auth';
const EXT_AUTHZ = '/v1/ext-authz';

const ANSWERS = {
  200: {
    description: 'Admitted, with headers about limits. 204 with `allowed_status=204`.',
    schema: undefined,
  },
  429: {
    description:
      'Over a limit, with the headers and the body for the client. Other refusals have their own status.',
    schema: undefined,
  },
};

/** For proxies that ask before they forward. */
export const FORWARD_AUTH_ENDPOINTS: readonly ServiceEndpoint[] = [
  {
    id: 'forwardAuth',
    method: 'ANY',
    path: FORWARD_AUTH,
    below: true,
    summary:
      'Whether a request that `X-Forwarded-Method`, `-Proto`, `-Host`, `-Uri` and `-For` describe is admitted: nginx, Caddy, Traefik, HAProxy.',
    access: 'proxy',
    answers: ANSWERS,
    problems: ['INVALID_REQUEST', 'UNTRUSTED_PROXY'],
    handle: async (call, parts) => {
      requireTrusted(call.peer, parts.snapshot);
      const options = optionsOf(call.path);
      return answered(call.request, parts, { asked: describedBy(call, options), options });
    },
  },
  {
    id: 'extAuthz',
    method: 'ANY',
    path: EXT_AUTHZ,
    below: true,
    summary:
      "Whether a request is admitted whose method, host and path (behind this prefix) are those of the call: Envoy's `ext_authz` over HTTP.",
    access: 'proxy',
    answers: ANSWERS,
    problems: ['INVALID_REQUEST', 'UNTRUSTED_PROXY'],
    handle: async (call, parts) => {
      requireTrusted(call.peer, parts.snapshot);
      return answered(call.request, parts, { asked: sentAs(call), options: AS_IS });
    },
  },
];

interface ForwardAuthOptions {
  /** What an admitted request gets. */
  readonly allowedStatus: 200 | 204;
  /** What every refused one gets instead of its own status. */
  readonly deniedStatus: number | undefined;
  /** Which headers describe the request: one kind, because clients may send the others. */
  readonly source: 'x-forwarded' | 'x-original';
}

const OPTIONS = ['allowed_status', 'denied_status', 'source'] as const;

/**
 * `/denied_status=403/source=x-original`: behind the path, because some proxies send the query of the client along, and
 * a client must not choose.
 */
function optionsOf(path: string): ForwardAuthOptions {
  const parameters = new Map<string, string>();
  for (const segment of path.slice(FORWARD_AUTH.length).split('/').slice(1)) {
    const at = segment.indexOf('=');
    const name = OPTIONS.find((option) => option === segment.slice(0, at));
    if (name === undefined) {
      throw invalid(`The path ends with ${shown(segment)}; expected some of ${OPTIONS.join('=, ')}=.`);
    }
    parameters.set(name, segment.slice(at + 1));
  }
  const allowed = parameters.get('allowed_status') ?? '200';
  if (allowed !== '200' && allowed !== '204') {
    throw invalid(`allowed_status is ${shown(allowed)}; expected 200 or 204.`);
  }
  const denied = parameters.get('denied_status');
  if (denied !== undefined && !/^[45]\d\d$/.test(denied)) {
    throw invalid(`denied_status is ${shown(denied)}; expected 400 to 599, such as 403 for nginx.`);
  }
  const source = parameters.get('source') ?? 'x-forwarded';
  if (source !== 'x-forwarded' && source !== 'x-original') {
    throw invalid(`source is ${shown(source)}; expected x-forwarded or x-original.`);
  }
  return {
    allowedStatus: allowed === '204' ? 204 : 200,
    deniedStatus: denied === undefined ? undefined : Number(denied),
    source,
  };
}

function invalid(message: string): ServiceProblem {
  return new ServiceProblem('INVALID_REQUEST', message);
}

function describedBy({ request, peer }: ServiceCall, { source }: ForwardAuthOptions): AskedRequest {
  const { rawHeaders } = request;
  if (source === 'x-original') {
    const url = onlyLine(rawHeaders, 'X-Original-URL');
    if (!URL.canParse(url))
      throw invalid(`X-Original-URL is ${shown(url)}; expected a URL such as "https://host/path".`);
    const [, scheme = '', host = '', target = ''] = /^(https?):\/\/([^/?#]*)(.*)$/i.exec(url) ?? [];
    return {
      method: onlyLine(rawHeaders, 'X-Original-Method'),
      scheme,
      host,
      target: target.startsWith('/') ? target : `/${target}`,
      rawHeaders,
      peer,
    };
  }
  return {
    method: onlyLine(rawHeaders, 'X-Forwarded-Method'),
    scheme: lineOf(rawHeaders, 'X-Forwarded-Proto') ?? 'http',
    host: lineOf(rawHeaders, 'X-Forwarded-Host') ?? hostOf(request),
    target: onlyLine(rawHeaders, 'X-Forwarded-Uri'),
    rawHeaders,
    peer,
  };
}

function sentAs({ request, method, path, query, peer }: ServiceCall): AskedRequest {
  const { rawHeaders } = request;
  const target = path.slice(EXT_AUTHZ.length);
  return {
    method,
    scheme: lineOf(rawHeaders, 'X-Forwarded-Proto') ?? 'http',
    host: hostOf(request),
    target: `${target === '' ? '/' : target}${query}`,
    rawHeaders,
    peer,
  };
}

function hostOf({ headers }: CallRequest): string {
  const authority = headers[':authority'];
  return headers.host ?? (typeof authority === 'string' ? authority : '');
}

async function answered(
  request: CallRequest,
  { snapshot }: EndpointParts,
  { asked, options }: { readonly asked: AskedRequest; readonly options: ForwardAuthOptions },
): Promise<CallReply> {
  const { allowedStatus, deniedStatus } = options;
  // Some proxies send the body along; it decides nothing.
  request.resume();
  const decision = await decideAsked(asked, snapshot, cancelledWith(request));
  return {
    status: decision.allowed ? allowedStatus : (deniedStatus ?? decision.status),
    decided: { checks: 1, denied: decision.allowed ? 0 : 1 },
    contentType: decision.contentType,
    // For proxies to which a refusal has to be a 403.
    headers: [
      ...decision.headers,
      ...decision.identityHeaders,
      ['X-Spillgate-Status', String(decision.status)],
    ],
    body: decision.body,
  };
}

const AS_IS: ForwardAuthOptions = { allowedStatus: 200, deniedStatus: undefined, source: 'x-forwarded' };

/** A request that waits in a leaky bucket leaves it when the proxy gives up. */
function cancelledWith(request: CallRequest): DelayListener {
  return {
    waits: (turn: Delay) => {
      const { socket } = request;
      const leave = (): void => turn.cancel();
      request.once('aborted', leave);
      socket.once('close', leave);
      void turn.ended.then(() => socket.off('close', leave));
    },
  };
}

// A request that another proxy asks about: from the headers that describe it, or as it was sent.
/** The original request, as a proxy describes it. */
export interface AskedRequest {
  readonly method: string;
  readonly scheme: string;
  readonly host: string;
  /** Path and query. */
  readonly target: string;
  /** Names and values by turns. */
  readonly rawHeaders: readonly string[];
  /** Who sent it to the proxy, or the proxy itself where a header names the client. */
  readonly peer: string | undefined;
}

export interface AskedDecision {
  readonly allowed: boolean;
  readonly status: number;
  /** What the response to the client has to say about limits. */
  readonly headers: readonly HeaderPair[];
  /** What the request to the backend has to say about who is asking. */
  readonly identityHeaders: readonly HeaderPair[];
  readonly contentType: string | undefined;
  readonly body: string;
}

/** Only those whom the gateway believes about clients may ask in their name. */
export function requireTrusted(peer: string | undefined, { config }: ServiceSnapshot): void {
  if (readingRules(config).trustsPeer(peer)) return;
  throw new ServiceProblem(
    'UNTRUSTED_PROXY',
    `The proxy is ${peer ?? 'unknown'}, which is not in server.client_address.trusted_proxies: add its address there.`,
  );
}

/** Meets the same rules as a request to the gateway. */
export async function decideAsked(
  asked: AskedRequest,
  { config, ruleEngine, identifier }: ServiceSnapshot,
  waiter?: DelayListener,
): Promise<AskedDecision> {
  const rules = readingRules(config);
  const head = headOf(asked);
  const id = requestIdOf(head, rules.requestIdHeader);
  const read = readRequest(head, id, rules);
  if (typeof read === 'string') return refusedBy(errorAnswer(read, id));
  const identity = await identifier?.identify(read.facts);
  const facts = { ...read.facts, identity };
  const outcome = await ruleEngine.decide(facts, waiter);
  // Nobody says when the request has ended.
  outcome.release?.();
  // Nor what it has cost: the estimate stands.
  void outcome.charge?.end(undefined);
  if (!outcome.admitted) return refusedBy(refusalText(outcome, id, false));
  return {
    allowed: true,
    status: 200,
    headers: outcome.headers,
    identityHeaders: identityHeaders(config.identity.headers, facts),
    contentType: undefined,
    body: '',
  };
}

function refusedBy({ status, headers, body }: AnswerText): AskedDecision {
  const pairs: HeaderPair[] = [];
  let contentType: string | undefined;
  for (let at = 0; at < headers.length; at += 2) {
    const [name = '', value = ''] = headers.slice(at, at + 2);
    if (name.toLowerCase() === 'content-type') contentType = value;
    else pairs.push([name, value]);
  }
  return { allowed: false, status, headers: pairs, identityHeaders: [], contentType, body };
}

/** They are about the question, not about the request. */
const OF_THE_QUESTION: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'transfer-encoding',
  'x-forwarded-host',
  'x-forwarded-method',
  'x-forwarded-proto',
  'x-forwarded-uri',
  'x-original-method',
  'x-original-url',
  'x-spillgate-token',
]);

function headOf({ method, scheme, host, target, rawHeaders, peer }: AskedRequest): RequestHead {
  const kept: string[] = ['host', host];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    if (!name.startsWith(':') && !OF_THE_QUESTION.has(name.toLowerCase())) kept.push(name, value);
  }
  return {
    protocol: 'HTTP/1.1',
    method,
    scheme: scheme.toLowerCase() === 'https' ? 'https' : 'http',
    target,
    authority: undefined,
    rawHeaders: kept,
    peer,
    bodyless: true,
  };
}

/** The only line of a header; a problem where it is missing or there are several. */
function onlyLine(rawHeaders: readonly string[], name: string): string {
  const line = lineOf(rawHeaders, name);
  if (line !== undefined && line !== '') return line;
  throw new ServiceProblem(
    'INVALID_REQUEST',
    `The header ${name} is missing; expected the proxy to describe the original request with it.`,
  );
}

/** Undefined if there is none. */
function lineOf(rawHeaders: readonly string[], name: string): string | undefined {
  const lower = name.toLowerCase();
  let found: string | undefined;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() !== lower) continue;
    if (found !== undefined) {
      throw new ServiceProblem(
        'INVALID_REQUEST',
        `The header ${name} is sent twice, the second time as ${shown(rawHeaders[at + 1])}; expected the proxy to replace what clients send.`,
      );
    }
    found = rawHeaders[at + 1];
  }
  return found;
}

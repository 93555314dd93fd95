// A request that another proxy asks about: from the headers that describe it, or as it was sent.
import type { HeaderPair } from 'spillgate/http';
import { shown } from '../../config/shown.ts';
import type { RequestHead } from '../../proxy/exchange.ts';
import { errorAnswer, refusalText, type AnswerText } from '../../proxy/gateway-errors.ts';
import { readingRules, readRequest, requestIdOf } from '../../proxy/request/read-request.ts';
import type { DelayListener } from '../../rules/rule-outcome.ts';
import type { ServiceSnapshot } from '../snapshot.ts';
import { ServiceProblem } from '../http/service-problem.ts';

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
  { config, ruleEngine }: ServiceSnapshot,
  waiter?: DelayListener,
): Promise<AskedDecision> {
  const rules = readingRules(config);
  const head = headOf(asked);
  const id = requestIdOf(head, rules.requestIdHeader);
  const read = readRequest(head, id, rules);
  if (typeof read === 'string') return refusedBy(errorAnswer(read, id));
  const outcome = await ruleEngine.decide(read.facts, waiter);
  if (!outcome.admitted) return refusedBy(refusalText(outcome, false));
  return { allowed: true, status: 200, headers: outcome.headers, contentType: undefined, body: '' };
}

function refusedBy({ status, headers, body }: AnswerText): AskedDecision {
  const pairs: HeaderPair[] = [];
  let contentType: string | undefined;
  for (let at = 0; at < headers.length; at += 2) {
    const [name = '', value = ''] = headers.slice(at, at + 2);
    if (name.toLowerCase() === 'content-type') contentType = value;
    else pairs.push([name, value]);
  }
  return { allowed: false, status, headers: pairs, contentType, body };
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
export function onlyLine(rawHeaders: readonly string[], name: string): string {
  const line = lineOf(rawHeaders, name);
  if (line !== undefined && line !== '') return line;
  throw new ServiceProblem(
    'INVALID_REQUEST',
    `The header ${name} is missing; expected the proxy to describe the original request with it.`,
  );
}

/** Undefined if there is none. */
export function lineOf(rawHeaders: readonly string[], name: string): string | undefined {
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

// Between the messages of Envoy's protocol and what decides.
import { type Message, create, fromJson, toJson, type JsonValue } from '@bufbuild/protobuf';
import { quotaExceeded, rateLimitHeaders, plainProblem, type DescribeDecision } from 'spillgate/http';
import type { Config } from '../../config/config.ts';
import type { RlsConfig } from '../../config/schema/service.ts';
import { readBody, type CallReply, ServiceProblem, type ServiceEndpoint } from '../http/call.ts';
import type { ServiceSnapshot } from '../snapshot.ts';
import { messageNamed } from '../wire/proto-registry.ts';
import type { RlsResponse, RlsResponseStatus } from '../wire/rls-codec.ts';
import { unitNumber } from './descriptor-file.ts';
import { type RlsDescriptor, type RlsRequest, RlsError } from './descriptor-limits.ts';
import { shouldRateLimit, type RlsDecision, type RlsStatus } from './should-rate-limit.ts';

/** `RateLimitRequest`, as its descriptor reads it. */
interface RlsRequestMessage {
  readonly domain: string;
  readonly hitsAddend: number;
  readonly descriptors: readonly RlsDescriptorMessage[];
}

interface RlsDescriptorMessage {
  readonly entries: RlsDescriptor['entries'];
  readonly limit?: RlsDescriptor['limit'];
  readonly hitsAddend?: bigint;
  readonly isNegativeHits: boolean;
}

/** A request that was read by its descriptor. */
export function requestIn(message: Message): RlsRequest {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- read by the descriptor of RateLimitRequest
  const { domain, hitsAddend, descriptors } = message as unknown as RlsRequestMessage;
  return {
    domain,
    hitsAddend,
    descriptors: descriptors.map(({ entries, limit, hitsAddend: own, isNegativeHits }) => ({
      entries,
      limit,
      hitsAddend: own,
      isNegativeHits,
    })),
  };
}

/** What a request gets, and whether it is over. */
export interface RlsAnswer {
  readonly over: boolean;
  readonly fields: RlsResponse;
}

/** Throws an `RlsError` for a question without an answer. */
export async function answerRls(request: RlsRequest, snapshot: ServiceSnapshot): Promise<RlsAnswer> {
  const { config, limiter, descriptorLimits: limits, refunds } = snapshot;
  const rls = rlsOf(config);
  const { compat, shadow } = rls;
  const decision = await shouldRateLimit(request, { limiter, limits, compat, shadow, refunds });
  return { over: decision.over, fields: fieldsOf(request, decision, config) };
}

function rlsOf({ service }: Config): RlsConfig {
  if (service === undefined) throw new Error('there is no service');
  return service.rls;
}

const OK = 1;
const OVER_LIMIT = 2;

function fieldsOf(request: RlsRequest, decision: RlsDecision, config: Config): RlsResponse {
  const {
    dynamic_metadata: withMetadata,
    compat,
    response_headers: withHeaders = compat === 'exact',
  } = rlsOf(config);
  const { over, statuses, spoken } = decision;
  const headers = !withHeaders
    ? []
    : compat === 'strict'
      ? referenceHeaders(statuses)
      : ownHeaders(decision, config);
  const body =
    over && compat === 'exact' ? (spoken === undefined ? CLOSED : quotaExceeded(spoken.decision)) : undefined;
  const typed =
    body === undefined ? headers : [...headers, { key: 'content-type', value: 'application/problem+json' }];
  return {
    overallCode: over ? OVER_LIMIT : OK,
    statuses: statuses.map(statusFields),
    responseHeadersToAdd: typed,
    ...(body === undefined ? {} : { rawBody: Buffer.from(JSON.stringify(body)) }),
    ...(withMetadata ? { dynamicMetadata: metadataOf(request, decision) } : {}),
  };
}

const CLOSED = plainProblem(429, 'This limit admits nothing.');
const MAX_UINT32 = 2 ** 32 - 1;

function statusFields({ over, announced, remaining, resetMs }: RlsStatus): RlsResponseStatus {
  const code = over ? OVER_LIMIT : OK;
  const limitRemaining = Math.min(remaining, MAX_UINT32);
  if (announced === undefined) return { code, limitRemaining };
  const { requestsPerUnit, unit, name } = announced;
  return {
    code,
    limitRemaining,
    currentLimit: { requestsPerUnit: Math.min(requestsPerUnit, MAX_UINT32), unit: unitNumber(unit), name },
    // Whole seconds, rounded up: Envoy cuts off the rest, and who obeys has to be admitted.
    durationUntilReset: { seconds: BigInt(Math.ceil(resetMs / 1000)), nanos: 0 },
  };
}

const describers = new WeakMap<Config, DescribeDecision>();

function ownHeaders({ spoken }: RlsDecision, config: Config): RlsResponse['responseHeadersToAdd'] {
  if (spoken === undefined) return [];
  const describe = describers.get(config) ?? rateLimitHeaders({ headers: config.rate_limit.headers });
  describers.set(config, describe);
  return describe(spoken.decision, spoken.limits).map(([key, value]) => ({ key, value }));
}

/** About the limit with the least left; of those that are over, the last. */
function referenceHeaders(statuses: readonly RlsStatus[]): RlsResponse['responseHeadersToAdd'] {
  const limited = statuses.filter(({ announced }) => announced !== undefined);
  const [first, ...others] = limited;
  if (first === undefined) return [];
  const least = others.reduce((one, other) => (other.remaining < one.remaining ? other : one), first);
  const { announced, remaining, resetMs } = limited.findLast(({ over }) => over) ?? least;
  return [
    { key: 'RateLimit-Limit', value: String(announced?.requestsPerUnit ?? 0) },
    { key: 'RateLimit-Remaining', value: String(remaining) },
    { key: 'RateLimit-Reset', value: String(Math.ceil(resetMs / 1000)) },
  ];
}

function metadataOf({ domain, descriptors, hitsAddend }: RlsRequest, { metadata }: RlsDecision): object {
  return {
    domain,
    descriptors: descriptors.map((descriptor) => ({
      entries: descriptor.entries.map(({ key, value }) => `${key}=${value}`),
      ...(descriptor.hitsAddend === undefined ? {} : { hitsAddend: Number(descriptor.hitsAddend) }),
    })),
    ...(hitsAddend === 0 ? {} : { hitsAddend }),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
}

const requestMessage = messageNamed('envoy.service.ratelimit.v3.RateLimitRequest');
const responseMessage = messageNamed('envoy.service.ratelimit.v3.RateLimitResponse');

/** `POST /json` of the reference server, with its statuses. */
export const JSON_RLS_ENDPOINT: ServiceEndpoint = {
  id: 'json',
  method: 'POST',
  path: '/json',
  summary: "Envoy's `RateLimitRequest` as JSON, answered with a `RateLimitResponse`.",
  access: 'token',
  answers: {
    200: { description: 'All descriptors pass.', schema: undefined },
    429: { description: 'One is over its limit.', schema: undefined },
  },
  problems: ['INVALID_REQUEST', 'BODY_TOO_LARGE', 'STORE_UNAVAILABLE'],
  async handle({ request }, { snapshot }) {
    const message = messageIn(await readBody(request));
    try {
      const { over, fields } = await answerRls(requestIn(message), snapshot);
      return { ...replyOf(fields, over ? 429 : 200), decided: { checks: 1, denied: over ? 1 : 0 } };
    } catch (failure) {
      if (!(failure instanceof RlsError)) throw failure;
      if (snapshot.config.service?.rls.compat === 'strict') return BAD_REQUEST;
      throw new ServiceProblem(
        failure.code === 'unavailable' ? 'STORE_UNAVAILABLE' : 'INVALID_REQUEST',
        `${failure.message}.`,
      );
    }
  },
};

const BAD_REQUEST: CallReply = {
  status: 400,
  contentType: 'text/plain; charset=utf-8',
  body: 'Bad Request\n',
};

function messageIn(body: Buffer) {
  try {
    const json: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what JSON.parse returns is JSON
    return fromJson(requestMessage, json as JsonValue, { ignoreUnknownFields: true });
  } catch (failure) {
    const why = failure instanceof Error ? failure.message : String(failure);
    throw new ServiceProblem('INVALID_REQUEST', `The body is not a RateLimitRequest in JSON: ${why}.`);
  }
}

function replyOf(fields: RlsResponse, status: number): CallReply {
  const json = toJson(responseMessage, create(responseMessage, { ...fields }));
  return { status, contentType: 'application/json', body: JSON.stringify(json) };
}

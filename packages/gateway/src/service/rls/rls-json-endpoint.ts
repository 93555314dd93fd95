import { create, fromJson, toJson, type JsonValue } from '@bufbuild/protobuf';
import { readBody, type CallReply } from '../http/call.ts';
import type { ServiceEndpoint } from '../http/endpoint.ts';
import { ServiceProblem } from '../http/service-problem.ts';
import { messageNamed } from '../wire/proto-registry.ts';
import { answerRls } from './rls-answer.ts';
import { RlsError } from './rls-request.ts';

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
      const { over, fields } = await answerRls(message, snapshot);
      return replyOf(fields, over ? 429 : 200);
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

function replyOf(fields: Readonly<Record<string, unknown>>, status: number): CallReply {
  const json = toJson(responseMessage, create(responseMessage, fields));
  return { status, contentType: 'application/json', body: JSON.stringify(json) };
}

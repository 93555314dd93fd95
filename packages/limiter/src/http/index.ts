// What an adapter is made of. The adapters of this package use nothing else.
export { HttpLimiter, type HttpOutcome, type HttpRequestFacts, type MaybePromise } from './http-limiter.ts';
export type { HttpAnswer } from './answer.ts';
export type {
  AnswerFunction,
  CustomAnswer,
  DecidedRequest,
  Limited,
  Policies,
  PolicyChoice,
  RateLimitOptions,
  HttpRefusal,
} from './rate-limit-options.ts';
export {
  clientAddress,
  peerTrust,
  type AddressFacts,
  type ClientAddress,
  type ClientAddressOptions,
} from './client-address.ts';
export { watchProxies } from './proxy-warning.ts';
export {
  rateLimitHeaders,
  retryAfterSeconds,
  type DescribeDecision,
  type HeaderOptions,
  type HeaderPair,
  type HeaderStyle,
} from './rate-limit-headers.ts';
export { appendHeaders, writeHeaders, type HeaderBag } from './place-headers.ts';
export { plainProblem, quotaExceeded, type ProblemDetails } from './problem.ts';
export { cookieValue, headerValue, queryValue, type FoundKey, type NoKey } from './key-values.ts';
export { compositeKey, type KeyOption, type KeyPart, type KeyValue, type MissingKey } from './request-key.ts';
export type { EndedResponse, UnsettledRequest } from './settle-response.ts';
export { startDelay, type Delay } from './delay.ts';

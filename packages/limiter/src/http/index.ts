// What an adapter is made of. The adapters of this package use nothing else.
export { HttpLimiter, type RequestFacts, type Ruling } from './http-limiter.ts';
export type { Answer } from './answer.ts';
export type {
  CustomAnswer,
  Decided,
  Limited,
  Policies,
  PolicyChoice,
  RateLimitOptions,
  Refusal,
} from './rate-limit-options.ts';
export {
  clientAddress,
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
export { plainProblem, quotaExceeded, type Problem } from './problem.ts';
export { compositeKey, type KeyOption, type KeyPart, type KeyValue, type MissingKey } from './request-key.ts';
export { turnAfter, type Turn } from './turn.ts';

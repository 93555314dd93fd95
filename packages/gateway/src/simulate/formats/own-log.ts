import { NO_LOGGED_HEADERS, type AccessLogFormat, type LoggedRequest } from '../logged-request.ts';
import { jsonFormat } from './json-format.ts';
import type { LoggedFields } from './parsed-fields.ts';

/** The places of the fields. */
const O = {
  message: 0,
  time: 1,
  at: 2,
  ms: 3,
  client: 4,
  method: 5,
  scheme: 6,
  host: 7,
  path: 8,
  outcome: 9,
  reason: 10,
  apiKey: 11,
} as const;

/** The gateway's own log, of which the lines about requests count. */
export const OWN_LOG: AccessLogFormat = jsonFormat({
  name: 'spillgate',
  description: "Spillgate's own access log",
  fields: [
    'msg',
    'time',
    'at',
    'ms',
    'client',
    'method',
    'scheme',
    'host',
    'path',
    'outcome',
    'reason',
    'apiKey',
  ],
  requestOf(fields) {
    const loggedMs = fields.moment(O.time);
    if (loggedMs === undefined || !fields.hasText(O.message)) return undefined;
    if (!fields.hasText(O.message, 'request')) return 'other';
    const method = fields.text(O.method);
    const met = withoutRule(fields);
    // A target that is not well-formed is not in the log.
    const target = fields.text(O.path) ?? (met === 'invalid' ? '' : undefined);
    if (method === undefined || target === undefined) return undefined;
    const tookMs = fields.number(O.ms) ?? 0;
    // Lines are written when their requests end.
    const atMs = fields.moment(O.at) ?? loggedMs - tookMs;
    return {
      atMs,
      endMs: atMs + tookMs,
      client: fields.text(O.client),
      method,
      scheme: fields.hasText(O.scheme, 'https') ? 'https' : 'http',
      host: fields.text(O.host) ?? '',
      target,
      apiKey: fields.text(O.apiKey),
      withoutRule: met,
    };
  },
  headersOf: () => NO_LOGGED_HEADERS,
});

/** Answers of the gateway that no rule had a part in, whatever the rules are. */
function withoutRule(fields: LoggedFields): LoggedRequest['withoutRule'] {
  if (!fields.has(O.reason)) return undefined;
  if (fields.hasText(O.outcome, 'answered')) return 'answered';
  if (fields.hasText(O.outcome, 'invalid')) return 'invalid';
  if (fields.hasText(O.reason, 'unidentified')) return 'unidentified';
  return fields.hasText(O.reason, 'authorization') ? 'authorization' : undefined;
}

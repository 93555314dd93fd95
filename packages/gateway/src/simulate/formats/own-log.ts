import { type AccessLogFormat, type LoggedRequest, NO_LOGGED_HEADERS } from '../logged-request.ts';
import { numberOf, textOf } from './json-formats.ts';
import { JsonShapes } from './json-shapes.ts';
import { momentOf } from './moments.ts';

const FIELDS = new JsonShapes([
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
]);

/** The gateway's own log, of which the lines about requests count. */
export const OWN_LOG: AccessLogFormat = {
  name: 'spillgate',
  description: "Spillgate's own access log",
  wholeSeconds: false,
  read(line) {
    const fields = FIELDS.read(line);
    if (fields === undefined) return undefined;
    const [message, time, at, ms, client, verb, scheme, host, target, outcome, reason, apiKey] = fields;
    const loggedMs = momentOf(time);
    if (loggedMs === undefined || typeof message !== 'string') return undefined;
    if (message !== 'request') return 'other';
    const method = textOf(verb);
    const met = withoutRule(outcome, reason);
    // A target that is not well-formed is not in the log.
    const path = textOf(target) ?? (met === 'invalid' ? '' : undefined);
    if (method === undefined || path === undefined) return undefined;
    const tookMs = numberOf(ms) ?? 0;
    // Lines are written when their requests end.
    const atMs = momentOf(at) ?? loggedMs - tookMs;
    return {
      atMs,
      endMs: atMs + tookMs,
      client: textOf(client),
      method,
      scheme: scheme === 'https' ? 'https' : 'http',
      host: textOf(host) ?? '',
      target: path,
      headers: NO_LOGGED_HEADERS,
      apiKey: textOf(apiKey),
      withoutRule: met,
    };
  },
};

/** Answers of the gateway that no rule had a part in, whatever the rules are. */
function withoutRule(outcome: unknown, reason: unknown): LoggedRequest['withoutRule'] {
  if (reason === undefined) return undefined;
  if (outcome === 'answered') return 'answered';
  if (outcome === 'invalid') return 'invalid';
  return reason === 'unidentified' || reason === 'authorization' ? reason : undefined;
}

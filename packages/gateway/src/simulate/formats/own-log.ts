import { type AccessLogFormat, type LoggedRequest, NO_LOGGED_HEADERS } from '../logged-request.ts';
import { fieldsOf, momentOf, numberOf, textOf } from './json-formats.ts';

/** The gateway's own log, of which the lines about requests count. */
export const OWN_LOG: AccessLogFormat = {
  name: 'spillgate',
  description: "Spillgate's own access log",
  wholeSeconds: false,
  read: (line) => usualLine(line) ?? anyLine(line),
};

function anyLine(line: string): LoggedRequest | 'other' | undefined {
  const fields = fieldsOf(line);
  const message = fields?.['msg'];
  const loggedMs = momentOf(fields?.['time']);
  if (fields === undefined || loggedMs === undefined || typeof message !== 'string') return undefined;
  if (message !== 'request') return 'other';
  const method = textOf(fields['method']);
  const met = withoutRule(fields['outcome'], fields['reason']);
  // A target that is not well-formed is not in the log.
  const path = textOf(fields['path']) ?? (met === 'invalid' ? '' : undefined);
  if (method === undefined || path === undefined) return undefined;
  const tookMs = numberOf(fields['ms']) ?? 0;
  // Lines are written when their requests end.
  const atMs = momentOf(fields['at']) ?? loggedMs - tookMs;
  return {
    atMs,
    endMs: atMs + tookMs,
    client: textOf(fields['client']),
    method,
    scheme: fields['scheme'] === 'https' ? 'https' : 'http',
    host: textOf(fields['host']) ?? '',
    target: path,
    headers: NO_LOGGED_HEADERS,
    apiKey: textOf(fields['apiKey']),
    withoutRule: met,
  };
}

/** Answers of the gateway that no rule had a part in, whatever the rules are. */
function withoutRule(outcome: unknown, reason: unknown): LoggedRequest['withoutRule'] {
  if (reason === undefined) return undefined;
  if (outcome === 'answered') return 'answered';
  if (outcome === 'invalid') return 'invalid';
  return reason === 'unidentified' || reason === 'authorization' ? reason : undefined;
}

const START = '{"level":"info","time":"';
const END = ',"msg":"request"}';
const BACKSLASH = '\\';

/**
 * A line as the gateway writes nearly all of them, without taking it apart as JSON. A quote within a text is escaped,
 * so without a backslash `"path":"` stands where the path is and nowhere else.
 */
function usualLine(line: string): LoggedRequest | undefined {
  if (!line.startsWith(START) || !line.endsWith(END) || line.includes(BACKSLASH)) return undefined;
  const at = line.indexOf('"at":', START.length);
  const client = line.indexOf('"client":"', at);
  const method = line.indexOf('"method":"', client);
  const scheme = line.indexOf('","scheme":"http', method);
  const host = line.indexOf('"host":"', scheme);
  const path = line.indexOf('","path":"', host);
  const pathEnd = line.indexOf('","protocol":"', path);
  const took = line.lastIndexOf(',"ms":');
  const places = [at, client, method, scheme, host, path, pathEnd, took];
  if (!places.every((place, index) => place > (places[index - 1] ?? 0))) return undefined;
  const atMs = 1000 * Number(line.slice(at + 5, line.indexOf(',', at)));
  const tookMs = Number(line.slice(took + 6, line.indexOf(',', took + 1)));
  const reason = line.indexOf('"reason":"', at);
  const isPlain = reason === -1 || reason > client || line.startsWith('"limits"', reason + 9);
  const key = line.indexOf('"apiKey":"', pathEnd);
  if (!(atMs > 0) || !(tookMs >= 0) || !isPlain || key !== -1) return undefined;
  return {
    atMs,
    endMs: atMs + tookMs,
    client: line.slice(client + 10, line.indexOf('"', client + 10)),
    method: line.slice(method + 10, scheme),
    scheme: line.charCodeAt(scheme + 16) === LETTER_S ? 'https' : 'http',
    host: line.slice(host + 8, path),
    target: line.slice(path + 10, pathEnd),
    headers: NO_LOGGED_HEADERS,
  };
}

const LETTER_S = 0x73;

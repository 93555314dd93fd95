import { NO_LOGGED_HEADERS, type AccessLogFormat } from '../logged-request.ts';
import { fieldsOf, momentOf, numberOf, textOf } from './json-fields.ts';

/** The gateway's own log, of which the lines about requests count. */
export const OWN_LOG: AccessLogFormat = {
  name: 'spillgate',
  description: "Spillgate's own access log",
  wholeSeconds: false,
  read(line) {
    const fields = fieldsOf(line);
    const message = fields?.get('msg');
    const loggedMs = momentOf(fields?.get('time'));
    if (fields === undefined || loggedMs === undefined || typeof message !== 'string') return undefined;
    if (message !== 'request') return 'other';
    const method = textOf(fields.get('method'));
    const path = textOf(fields.get('path'));
    if (method === undefined || path === undefined) return undefined;
    return {
      // Lines are written when their requests end.
      atMs: momentOf(fields.get('at')) ?? loggedMs - (numberOf(fields.get('ms')) ?? 0),
      client: textOf(fields.get('client')),
      method,
      scheme: fields.get('scheme') === 'https' ? 'https' : 'http',
      host: textOf(fields.get('host')) ?? '',
      target: path,
      headers: NO_LOGGED_HEADERS,
    };
  },
};

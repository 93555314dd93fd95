import type { AccessLogFormat } from '../logged-request.ts';
import { fieldsOf, momentOf, textOf, withoutPort } from './json-fields.ts';

const HEADER = 'request_';

/** Traefik, one JSON object per line. Headers are there if `accessLog.fields.headers` keeps them. */
export const TRAEFIK: AccessLogFormat = {
  name: 'traefik',
  description: 'Traefik, as JSON',
  wholeSeconds: false,
  read(line) {
    const fields = fieldsOf(line);
    const method = textOf(fields?.get('RequestMethod'));
    const target = textOf(fields?.get('RequestPath'));
    const atMs = momentOf(fields?.get('StartUTC') ?? fields?.get('StartLocal') ?? fields?.get('time'));
    if (fields === undefined || method === undefined || target === undefined || atMs === undefined) {
      return undefined;
    }
    const client = textOf(fields.get('ClientHost')) ?? textOf(fields.get('ClientAddr'));
    return {
      atMs,
      client: client === undefined ? undefined : withoutPort(client),
      method,
      scheme: fields.get('RequestScheme') === 'https' ? 'https' : 'http',
      host: textOf(fields.get('RequestHost')) ?? '',
      target,
      headers: [...fields].flatMap(([name, value]) =>
        name.startsWith(HEADER) && typeof value === 'string'
          ? [name.slice(HEADER.length).toLowerCase(), value]
          : [],
      ),
    };
  },
};

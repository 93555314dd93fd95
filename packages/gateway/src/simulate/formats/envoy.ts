import type { AccessLogFormat } from '../logged-request.ts';
import { fieldsOf, momentOf, textOf, withoutPort } from './json-fields.ts';

/** What Envoy and Istio call their fields where they log JSON, and the headers that these are. */
const HEADERS: readonly (readonly [field: string, header: string])[] = [
  ['user_agent', 'user-agent'],
  ['referer', 'referer'],
  ['x_forwarded_for', 'x-forwarded-for'],
  ['request_id', 'x-request-id'],
];

/** Envoy and Istio, one JSON object per line. */
export const ENVOY: AccessLogFormat = {
  name: 'envoy',
  description: 'Envoy and Istio, as JSON',
  wholeSeconds: false,
  read(line) {
    const fields = fieldsOf(line);
    const atMs = momentOf(fields?.get('start_time'));
    const method = textOf(fields?.get('method'));
    const target = textOf(fields?.get('path'));
    if (fields === undefined || atMs === undefined || method === undefined || target === undefined) {
      return undefined;
    }
    return {
      atMs,
      client: clientOf(fields),
      method,
      scheme: fields.get('scheme') === 'https' ? 'https' : 'http',
      host: textOf(fields.get('authority')) ?? '',
      target,
      headers: HEADERS.flatMap(([field, header]) => {
        const value = textOf(fields.get(field));
        return value === undefined ? [] : [header, value];
      }),
    };
  },
};

/** Envoy has already found out who the client is; without that, the last hop is the one that it saw itself. */
function clientOf(fields: ReadonlyMap<string, unknown>): string | undefined {
  const remote =
    textOf(fields.get('downstream_remote_address')) ??
    textOf(fields.get('downstream_direct_remote_address')) ??
    textOf(fields.get('x_forwarded_for'))?.split(',').at(-1)?.trim();
  return remote === undefined ? undefined : withoutPort(remote);
}

import type { AccessLogFormat } from '../logged-request.ts';
import { ALB } from './alb.ts';
import { COMBINED } from './combined.ts';
import { CADDY, ENVOY, TRAEFIK } from './json-formats.ts';
import { OWN_LOG } from './own-log.ts';

/** All that are recognized by themselves. */
export const ACCESS_LOG_FORMATS: readonly AccessLogFormat[] = [OWN_LOG, COMBINED, CADDY, ENVOY, TRAEFIK, ALB];

/** The format that reads most of these lines; undefined if none reads any. */
export function recognizeFormat(lines: readonly string[]): AccessLogFormat | undefined {
  let best: AccessLogFormat | undefined;
  let most = 0;
  for (const format of ACCESS_LOG_FORMATS) {
    const readable = lines.filter((line) => typeof format.read(line) === 'object').length;
    if (readable > most) [best, most] = [format, readable];
  }
  return best;
}

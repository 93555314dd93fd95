import { NO_LOGGED_HEADERS, type AccessLogFormat } from '../logged-request.ts';
import { calendarMoment } from './calendar-moment.ts';

/**
 * host ident user [time] "request" status bytes "referer" "user agent", and with `vhost_combined` the virtual host
 * first.
 */
const LINE =
  /^(?:([^\s:]+):\d+ )?(\S+) \S+ (?:[^["]*|"[^"]*") \[([^\]]+)\] "([A-Z][A-Z-]*) (\S+)(?: HTTP\/[\d.]+)?" \d{3} \S+(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)")?/;

/** The `common` and `combined` formats of Apache and nginx. */
export const COMBINED: AccessLogFormat = {
  name: 'combined',
  description: 'common and combined, of nginx and Apache',
  wholeSeconds: true,
  read(line) {
    const found = LINE.exec(line);
    if (found === null) return undefined;
    const [, host = '', client = '', time = '', method = '', target = '', referer, agent] = found;
    const atMs = calendarMoment(time);
    if (atMs === undefined) return undefined;
    return {
      atMs,
      client,
      method,
      scheme: 'http',
      host,
      target,
      headers: headersOf(referer, agent),
    };
  },
};

function headersOf(referer = '-', agent = '-'): readonly string[] {
  if (referer === '-' && agent === '-') return NO_LOGGED_HEADERS;
  return [...(referer === '-' ? [] : ['referer', referer]), ...(agent === '-' ? [] : ['user-agent', agent])];
}

import type { AccessLogFormat, LoggedRequest } from '../logged-request.ts';
import { withoutPort } from './json-fields.ts';

/** type time elb client:port target:port three-durations status target-status received sent "request" "user agent" */
const LINE =
  /^(?:https?|h2|grpcs|wss?) (\S+) \S+ (\S+) \S+ (-?[\d.]+) (-?[\d.]+) (-?[\d.]+) \S+ \S+ \S+ \S+ "([^" ]+) ([^" ]+) [^"]*" "([^"]*)"/;
const ABSOLUTE = /^(https?|wss?):\/\/([^/?]*)(.*)$/i;

/** Application Load Balancers of AWS. */
export const ALB: AccessLogFormat = {
  name: 'alb',
  description: 'AWS Application Load Balancer',
  wholeSeconds: false,
  read(line) {
    const found = LINE.exec(line);
    if (found === null) return undefined;
    const [
      ,
      ended = '',
      client = '',
      first = '',
      second = '',
      third = '',
      method = '',
      url = '',
      agent = '',
    ] = found;
    const endedMs = Date.parse(ended);
    const absolute = ABSOLUTE.exec(url);
    if (!Number.isFinite(endedMs) || absolute === null) return undefined;
    const [, scheme = '', host = '', target = ''] = absolute;
    const request: LoggedRequest = {
      // A duration of -1 is not known.
      atMs: endedMs - 1000 * [first, second, third].reduce((sum, text) => sum + Math.max(0, Number(text)), 0),
      client: withoutPort(client),
      method,
      scheme: /s$/i.test(scheme) ? 'https' : 'http',
      host,
      target: target === '' ? '/' : target,
      headers: agent === '-' ? [] : ['user-agent', agent],
    };
    return request;
  },
};

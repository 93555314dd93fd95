import { Agent, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What the visitors of the demo ask for begins so: it is counted by rules of its own, and stays out of the log. */
export const VISITED = '/demo/';
/** Says which visitor asks; nobody else's limit is touched. */
const VISITOR_HEADER = 'X-Demo-Visitor';

interface Visitor {
  readonly name: string;
  readonly method: 'GET' | 'POST';
  readonly path: string;
  /** The average time between two requests. */
  readonly everyMs: number;
}

/** Some are polite, one searches too much, and one tries passwords. */
const VISITORS: readonly Visitor[] = [
  { name: 'ann', method: 'GET', path: `${VISITED}catalogue`, everyMs: 900 },
  { name: 'ben', method: 'GET', path: `${VISITED}catalogue`, everyMs: 1300 },
  { name: 'cleo', method: 'GET', path: `${VISITED}basket`, everyMs: 2100 },
  { name: 'dora', method: 'GET', path: `${VISITED}search`, everyMs: 1700 },
  { name: 'scraper-7', method: 'GET', path: `${VISITED}search`, everyMs: 320 },
  { name: 'guesser', method: 'POST', path: `${VISITED}login`, everyMs: 1100 },
];

/** The rules that hold for the visitors, in the words of a configuration. */
export const VISITOR_RULES = `  policies:
    visitor: { average: 2, period: "1s", burst: 10 }
    search: { average: 1, period: "1s", burst: 5 }
    tighter: { average: 1, period: "2s", burst: 3 }
    login: { algorithm: fixedWindow, quota: 10, window: "1m" }
  rules:
    - name: demo-login
      match: { path: "${VISITED}login", method: POST }
      key: { type: header, header_name: ${VISITOR_HEADER} }
      policies: [login]
    - name: demo-search
      match: { path: "${VISITED}search" }
      key: { type: header, header_name: ${VISITOR_HEADER} }
      policies: [search]
    - name: demo-shop
      match: { path: "${VISITED}**" }
      key: { type: header, header_name: ${VISITOR_HEADER} }
      policies: [visitor, { policy: tighter, shadow: true }]
`;

/** A few requests per second of made-up visitors, so that there is something to see. Returns what ends it. */
export function startVisitors({ address, family, port }: AddressInfo): () => void {
  const host = address === '0.0.0.0' || address === '::' ? 'localhost' : address;
  const agent = new Agent({ keepAlive: true, maxSockets: VISITORS.length });
  const timers = new Set<NodeJS.Timeout>();
  const visit = (visitor: Visitor): void => {
    ask(visitor, { host, port, agent, family: family === 'IPv6' && host !== 'localhost' ? 6 : 0 });
    const timer = setTimeout(
      () => {
        timers.delete(timer);
        visit(visitor);
      },
      visitor.everyMs * (0.5 + Math.random()),
    ).unref();
    timers.add(timer);
  };
  for (const visitor of VISITORS) visit(visitor);
  return () => {
    for (const timer of timers) clearTimeout(timer);
    agent.destroy();
  };
}

interface Reached {
  readonly host: string;
  readonly port: number;
  readonly agent: Agent;
  readonly family: number;
}

function ask({ name, method, path }: Visitor, to: Reached): void {
  const asked = request({ ...to, method, path, headers: { [VISITOR_HEADER]: name } });
  asked.on('response', (response) => response.resume());
  // The gateway is about to end, or busy: the next visit comes anyway.
  asked.on('error', () => undefined);
  asked.end();
}

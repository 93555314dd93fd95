import { createServer, type IncomingMessage, type Server, Agent, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DEFAULT_FILE } from '../config/starter.ts';
import type { YamlFile } from '../config/yaml-tree.ts';
import type { Gateway } from '../runtime/gateway.ts';
import { listenOn } from '../runtime/listen.ts';
import { type Host, paintFor, type Paint } from './host.ts';

/** What runs when nothing is configured: small enough that the limit is met within a few requests. */
export function demoFile(backendUrl: string): YamlFile {
  return {
    path: 'demo.yaml',
    text: `backend:
  url: "${backendUrl}"
rate_limit:
  average: 5
  period: "10s"
${VISITOR_RULES}logging:
  format: pretty
  decision_log: "off"
`,
  };
}

/** The first thing that a newcomer reads. Every line to try works as it is printed. */
export function welcome({
  host,
  version,
  gateway,
  unusedFile,
}: {
  readonly host: Host;
  readonly version: string;
  readonly gateway: Gateway;
  /** A configuration that lies in the working directory. */
  readonly unusedFile: string | undefined;
}): string {
  const paint = paintFor(host.env, host.outputIsTerminal);
  const address = gateway.address();
  const { server, rate_limit: limits } = gateway.live().config;
  const url = `${server.tls.enabled ? 'https' : 'http'}://${hostText(address)}:${address.port}`;
  const admin = gateway.adminAddress();
  const adminUrl = admin === undefined ? undefined : `http://${hostText(admin)}:${admin.port}`;
  const { average = 0, period } = limits;
  const limit =
    average === 0
      ? 'no limit'
      : `each client may send ${average} requests, and one more every ${period / average / 1000} s`;
  const statuses = `for i in 1 2 3 4 5 6 7 8; do curl -s -o /dev/null -w '%{http_code}\\n' ${url}/; done`;
  const lines = [
    '',
    `  ${paint('bold', `Spillgate ${version}`)} is running in front of a small demo service.`,
    '',
    `  ${paint('bold', 'Gateway')}    ${paint('green', url)}   ${limit}`,
    ...(adminUrl === undefined
      ? []
      : [
          `  ${paint('bold', 'Dashboard')}  ${paint('green', adminUrl)}   open it in a browser: made-up visitors of ${VISITED} are on it already`,
        ]),
    ...(isEverywhere(address)
      ? [
          `  ${paint('dim', `The gateway listens on port ${address.port} on all addresses of this machine; set SPILLGATE_SERVER_ADDRESS to change that.`)}`,
        ]
      : []),
    '',
    '  Try it in another terminal:',
    `    curl -i ${url}/hello ${paint('dim', '               # what the service received, and how much is left')}`,
    `    ${statuses} ${paint('dim', ' # 200 until the limit, then 429')}`,
    `    curl -i ${url}/hello ${paint('dim', '               # Retry-After says when to try again')}`,
    '',
    ...ownService(host.program, unusedFile, paint),
    '',
    `  ${paint('dim', 'Press Ctrl+C to stop.')}`,
    '',
    '',
  ];
  return lines.join('\n');
}

function ownService(program: string, unusedFile: string | undefined, paint: Paint): readonly string[] {
  const guide = paint('dim', 'Tutorial: docs/gateway.md in the repository.');
  if (unusedFile !== undefined) {
    return [
      `  ${paint('bold', `${unusedFile} exists but is not used`)}: name the file to use it:`,
      `    ${program} run ${unusedFile}`,
      `  ${guide}`,
    ];
  }
  return [
    '  For your own service:',
    `    ${program} init ${paint('dim', '           # writes spillgate.yaml; set backend.url in it')}`,
    `    ${program} run ${DEFAULT_FILE}`,
    `  ${guide}`,
  ];
}

interface ListenAddress {
  readonly address: string;
  readonly family: string;
}

function isEverywhere({ address }: ListenAddress): boolean {
  return address === '0.0.0.0' || address === '::';
}

function hostText(listening: ListenAddress): string {
  if (isEverywhere(listening)) return 'localhost';
  return listening.family === 'IPv6' ? `[${listening.address}]` : listening.address;
}

const MAX_COUNTED_BODY_BYTES = 1_048_576;

/** A backend for a gateway without any configuration: it answers with what it was asked, secrets included. */
interface DemoService {
  readonly url: string;
  close(): void;
}

export async function startDemoService(): Promise<DemoService> {
  const server = demoServer();
  const { port } = await listenOn(server, '127.0.0.1:0');
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function demoServer(): Server {
  let served = 0;
  const server: Server = createServer((incoming, response) => {
    let bodyBytes = 0;
    incoming.on('data', (chunk: Buffer) => {
      bodyBytes += chunk.length;
      if (bodyBytes > MAX_COUNTED_BODY_BYTES) incoming.destroy();
    });
    incoming.on('end', () => {
      served += 1;
      response.setHeader('Content-Type', 'application/json');
      response.end(`${JSON.stringify(seen(incoming, bodyBytes, served), undefined, 2)}\n`);
    });
  });
  // The gateway keeps its connections; who closes them first must not be a race.
  server.keepAliveTimeout = 0;
  return server;
}

function seen({ method, url, headers }: IncomingMessage, bodyBytes: number, served: number): object {
  return {
    message: 'Hello from the demo behind the gateway. Set backend.url to see your own service here.',
    requestNumber: served,
    saw: { method, url, bodyBytes, headers },
  };
}

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
const VISITOR_RULES = `  policies:
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

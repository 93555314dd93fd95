import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo } from 'node:net';

import { GatewayProcess } from '../external/gateway-process.ts';
import { QuietSlices } from '../frame/quiet-slices.ts';
import { median, runRounds, type Plan, type Slice } from '../frame/rounds.ts';
import type { Report, SuiteOptions } from '../frame/suite.ts';

const FULL: Plan = { rounds: 9, sliceMs: 500 };
const QUICK: Plan = { rounds: 3, sliceMs: 300 };
const MAX_REPEATS = 20;
const CONNECTIONS = 16;
const PLENTY = 1_000_000_000;

/** Every request comes on a connection of its own: behind one that is not HTTP, nothing can follow. */
interface Kind {
  readonly id: string;
  readonly title: string;
  readonly text: string;
  readonly status: number;
}

const CLOSE = 'Connection: close\r\n\r\n';
const KINDS: readonly Kind[] = [
  { id: 'served', title: 'served', text: `GET / HTTP/1.1\r\nHost: a\r\n${CLOSE}`, status: 200 },
  {
    id: 'denied',
    title: 'denied by a limit',
    text: `GET /denied HTTP/1.1\r\nHost: a\r\n${CLOSE}`,
    status: 429,
  },
  { id: 'host', title: 'a host that is none', text: `GET / HTTP/1.1\r\nHost: a b\r\n${CLOSE}`, status: 400 },
  {
    id: 'framing',
    title: 'two lengths of a body',
    text: `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n${CLOSE}`,
    status: 400,
  },
  { id: 'bytes', title: 'bytes that are not HTTP', text: 'nonsense\r\n\r\n', status: 400 },
];

const LIMITS = {
  policies: {
    all: { average: PLENTY, burst: PLENTY, period: '1s' },
    none: { average: 1, burst: 1, period: '1d' },
  },
  rules: [
    { name: 'denied', match: { path: '/denied' }, policies: ['none'] },
    { name: 'all', policies: ['all'] },
  ],
};

interface RefusalSlice extends Slice {
  readonly cpuUs: number;
}

export async function refusalsSuite({ quick }: SuiteOptions): Promise<Report> {
  const plan = quick ? QUICK : FULL;
  const quiet = new QuietSlices(MAX_REPEATS);
  const backend = await startBackend();
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it listens on TCP
  const { port } = backend.address() as AddressInfo;
  // Whoever sends nothing else would soon be cut off.
  const gateway = await GatewayProcess.start(LIMITS, `http://127.0.0.1:${port}`, {
    max_overhead_per_address: 0,
  });
  try {
    await ask(gateway.port, { text: KINDS[1]?.text ?? '' });
    const slices = await runRounds(
      KINDS.map((kind) => ({
        id: kind.id,
        slice: async (budgetMs: number) =>
          quiet.run(
            async () => sliceOf(gateway, kind, budgetMs),
            ({ cpuUs }) => cpuUs / 1000,
          ),
      })),
      plan,
    );
    const usOf = (id: string): number =>
      median((slices.get(id) ?? []).map(({ cpuUs, operations }) => cpuUs / operations));
    return reportOf(usOf, [
      `One gateway in a process of its own, limits in memory, no access log, no budget for malformed requests; ${CONNECTIONS} clients, every request on a connection of its own.`,
      `Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms slices, interleaved, one warm-up round thrown away.`,
      quiet.summary(),
    ]);
  } finally {
    gateway.stop();
    backend.close();
    backend.closeAllConnections();
  }
}

async function startBackend(): Promise<Server> {
  const server = createServer((_request, response) => response.end('ok'));
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => {
    server.once('listening', resolve);
  });
  return server;
}

async function sliceOf(gateway: GatewayProcess, kind: Kind, budgetMs: number): Promise<RefusalSlice> {
  const cpuBefore = gateway.cpuUs();
  const startedMs = performance.now();
  let operations = 0;
  const lane = async (): Promise<void> => {
    while (performance.now() - startedMs < budgetMs) {
      const status = await ask(gateway.port, kind);
      if (status !== kind.status) throw new Error(`${kind.title}: answered ${status}, not ${kind.status}`);
      operations += 1;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, lane));
  return { operations, elapsedMs: performance.now() - startedMs, cpuUs: gateway.cpuUs() - cpuBefore };
}

/** The status of the answer, when the connection is closed. */
async function ask(port: number, { text }: Pick<Kind, 'text'>): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(text, 'latin1'));
    let answer = '';
    socket.setEncoding('latin1');
    socket.on('data', (piece: string) => {
      answer += piece;
    });
    socket.once('error', reject);
    socket.once('close', () => resolve(Number(answer.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length))));
  });
}

function reportOf(usOf: (id: string) => number, facts: readonly string[]): Report {
  const served = usOf('served');
  const dearest = Math.max(usOf('host'), usOf('framing'), usOf('bytes'));
  return {
    title: 'What refusing costs: processor time of the gateway per request',
    facts,
    tables: [
      {
        title: 'Requests on connections of their own',
        columns: [
          { title: 'request', align: 'left' },
          { title: 'processor us', align: 'right' },
          { title: 'of a served one', align: 'right' },
        ],
        rows: KINDS.map(({ id, title }) => [title, usOf(id).toFixed(0), (usOf(id) / served).toFixed(2)]),
      },
    ],
    goals: [
      {
        text: 'a request that is refused as malformed costs less than one that is served',
        passed: dearest < served,
        detail: `${dearest.toFixed(0)} us, ${served.toFixed(0)} us`,
      },
    ],
  };
}

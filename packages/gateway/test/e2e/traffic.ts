// A backend that counts, and clients that never stop asking.
import { EventEmitter, once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  createConnector,
  fetchWhole,
  Http1Pool,
  READ_INTO_ONE_BUFFER,
  targetOf,
} from '../../src/http-client/index.ts';

export interface Backend {
  readonly url: string;
  served(): number;
  close(): Promise<void>;
}

export async function startBackend(): Promise<Backend> {
  let served = 0;
  const server: Server = createServer((asked, response) => {
    served += 1;
    asked.resume();
    asked.on('end', () => response.end('ok'));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    served: () => served,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

export interface Tally {
  /** Answers by status. */
  readonly statuses: Map<number, number>;
  /** What was no answer at all. */
  readonly failures: string[];
}

function emptyTally(): Tally {
  return { statuses: new Map(), failures: [] };
}

export interface Load {
  readonly tally: Tally;
  /** Resolves when so many more requests were answered. */
  answers(count: number): Promise<void>;
  /** Resolves when every client has its last answer. */
  stop(): Promise<Tally>;
}

export interface LoadOptions {
  /** Where to send the next request; asked again when nobody listens there. */
  readonly urls: () => readonly string[];
  readonly clients: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly pauseMs?: number;
}

/** Connections to any number of servers, which are kept. */
class Agent {
  private readonly pools = new Map<string, Http1Pool>();
  private readonly maxConnections: number;

  constructor(maxConnections: number) {
    this.maxConnections = maxConnections;
  }

  async ask(url: string, headers: Readonly<Record<string, string>>): Promise<number> {
    const { origin, pathname, search } = new URL(url);
    const request = { method: 'GET', path: pathname + search, headers: Object.entries(headers).flat() };
    const { status } = await fetchWhole(this.poolTo(origin), request);
    return status;
  }

  async close(): Promise<void> {
    await Promise.all([...this.pools.values()].map(async (pool) => pool.close()));
  }

  private poolTo(origin: string): Http1Pool {
    const known = this.pools.get(origin);
    if (known !== undefined) return known;
    const dialling = { tls: {}, timeoutMs: 10_000, http2: false, onread: READ_INTO_ONE_BUFFER };
    const pool = new Http1Pool(origin, {
      connect: createConnector(targetOf(origin), dialling),
      maxConnections: this.maxConnections,
      maxPending: 100_000,
      idleTimeoutMs: 4000,
    });
    this.pools.set(origin, pool);
    return pool;
  }
}

/** Clients on connections of their own that are kept, as browsers and load balancers do. */
export function startLoad({ urls, clients, headers = {}, pauseMs = 1 }: LoadOptions): Load {
  const tally = emptyTally();
  const agent = new Agent(clients);
  const state = { running: true, answered: 0 };
  const answered = new EventEmitter().setMaxListeners(0);
  const loop = async (client: number): Promise<void> => {
    for (let at = client; state.running; at += 1) {
      await ask(agent, { urls: urls(), at, headers }, tally);
      state.answered += 1;
      answered.emit('answer');
      await pause(pauseMs);
    }
  };
  const loops = Promise.all(Array.from({ length: clients }, async (_, client) => loop(client)));
  return {
    tally,
    async answers(count) {
      const enough = state.answered + count;
      while (state.answered < enough) await once(answered, 'answer');
    },
    async stop() {
      state.running = false;
      await loops;
      await agent.close();
      return tally;
    },
  };
}

/** One request, at the next address that somebody listens on: what was never sent may be sent elsewhere. */
async function ask(
  agent: Agent,
  { urls, at, headers }: { urls: readonly string[]; at: number; headers: Readonly<Record<string, string>> },
  tally: Tally,
): Promise<void> {
  for (let tried = 0; tried < urls.length; tried += 1) {
    try {
      const url = urls[(at + tried) % urls.length] ?? '';
      const status = await agent.ask(url, headers);
      tally.statuses.set(status, (tally.statuses.get(status) ?? 0) + 1);
      return;
    } catch (failure) {
      const code = failure instanceof Error && 'code' in failure ? String(failure.code) : String(failure);
      if (code !== 'ECONNREFUSED' || tried === urls.length - 1) {
        tally.failures.push(`${code}: ${failure instanceof Error ? failure.message : ''}`);
        return;
      }
    }
  }
}

/** So many requests at once; how many got each status. */
export async function burst(
  urls: readonly string[],
  count: number,
  headers: Readonly<Record<string, string>> = {},
): Promise<Tally> {
  const tally = emptyTally();
  const agent = new Agent(50);
  await Promise.all(
    Array.from({ length: count }, async (_, at) =>
      ask(agent, { urls: [urls[at % urls.length] ?? ''], at: 0, headers }, tally),
    ),
  );
  await agent.close();
  return tally;
}

export async function statusOf(url: string, headers: Readonly<Record<string, string>> = {}): Promise<number> {
  const response = await fetch(url, { headers });
  await response.arrayBuffer();
  return response.status;
}

async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

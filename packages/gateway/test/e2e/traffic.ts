// A backend that counts, and clients that never stop asking.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Agent, request } from 'undici';

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
  /** The longest wait for an answer. */
  slowestMs: number;
}

function emptyTally(): Tally {
  return { statuses: new Map(), failures: [], slowestMs: 0 };
}

export interface Load {
  readonly tally: Tally;
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

/** Clients on connections of their own that are kept, as browsers and load balancers do. */
export function startLoad({ urls, clients, headers = {}, pauseMs = 1 }: LoadOptions): Load {
  const tally = emptyTally();
  const agent = new Agent({ connections: clients, pipelining: 1 });
  const state = { running: true };
  const loop = async (client: number): Promise<void> => {
    for (let at = client; state.running; at += 1) {
      await ask(agent, { urls: urls(), at, headers }, tally);
      await pause(pauseMs);
    }
  };
  const loops = Promise.all(Array.from({ length: clients }, async (_, client) => loop(client)));
  return {
    tally,
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
  const startedMs = performance.now();
  for (let tried = 0; tried < urls.length; tried += 1) {
    try {
      const url = urls[(at + tried) % urls.length] ?? '';
      const { statusCode, body } = await request(url, { dispatcher: agent, headers });
      await body.dump();
      tally.statuses.set(statusCode, (tally.statuses.get(statusCode) ?? 0) + 1);
      tally.slowestMs = Math.max(tally.slowestMs, performance.now() - startedMs);
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
  const agent = new Agent({ connections: 50, pipelining: 1 });
  await Promise.all(
    Array.from({ length: count }, async (_, at) =>
      ask(agent, { urls: [urls[at % urls.length] ?? ''], at: 0, headers }, tally),
    ),
  );
  await agent.close();
  return tally;
}

export async function statusOf(url: string, headers: Readonly<Record<string, string>> = {}): Promise<number> {
  const { statusCode, body } = await request(url, { headers });
  await body.dump();
  return statusCode;
}

export async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

import { once } from 'node:events';
import type { Server } from 'node:http';
import { onTestFinished } from 'vitest';
import type { RateLimitOptions } from '../../src/http/index.ts';
import { ask, type Question, type Reply } from './client.ts';

/** A framework under test. To test another one, write one of these and hand it to `describeAdapter`. */
export interface Framework<Request> {
  readonly name: string;
  /**
   * A server, not yet listening. Every request passes `rateLimit()` once for each of the options, in their order, and
   * then reaches `serve`, whose text is the body of a 200.
   */
  createServer(options: readonly RateLimitOptions<Request>[], serve: () => string): Server | Promise<Server>;
  /** A header of the framework's own request. */
  headerOf(request: Request, name: string): string | undefined;
}

export interface RunningServer {
  readonly port: number;
  readonly server: Server;
  /** How many requests reached the application. */
  readonly served: () => number;
  readonly get: (question?: Question) => Promise<Reply>;
  /** The statuses of that many requests, one after the other. */
  readonly statuses: (count: number, question?: Question) => Promise<number[]>;
}

/** Starts a server for one test; it is closed when the test is over. */
export async function startServer<Request>(
  framework: Framework<Request>,
  options: RateLimitOptions<Request> | readonly RateLimitOptions<Request>[],
  host = '127.0.0.1',
): Promise<RunningServer> {
  let served = 0;
  const server = await framework.createServer(isList(options) ? options : [options], () => {
    served += 1;
    return 'hello';
  });
  server.listen(0, host);
  await once(server, 'listening');
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  const port = portOf(server);
  const get = (question?: Question): Promise<Reply> => ask(host, port, question);
  return {
    port,
    server,
    served: () => served,
    get,
    async statuses(count, question) {
      const found: number[] = [];
      for (let sent = 0; sent < count; sent += 1) found.push((await get(question)).status);
      return found;
    },
  };
}

function isList<Request>(
  options: RateLimitOptions<Request> | readonly RateLimitOptions<Request>[],
): options is readonly RateLimitOptions<Request>[] {
  return Array.isArray(options);
}

function portOf(server: Server): number {
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the server does not listen');
  return address.port;
}

import { createServer, type Server } from 'node:http';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { createLimiter, tokenBucket } from '../../src/index.ts';
import { startServer, type RunningServer } from './running-server.ts';

/** The `fetch` of an application, as `@hono/node-server` calls it. */
export type Fetch = (request: Request, env: HttpBindings) => Response | Promise<Response>;

/** A server of Node. With `ownResponses` the Request and Response are the lighter ones of `@hono/node-server`. */
export function fetchServer(fetch: Fetch, { ownResponses = true } = {}): Server {
  const handle = (request: Request, env: object): unknown => fetch(request, env as HttpBindings);
  const listener = getRequestListener(handle, { overrideGlobalObjects: ownResponses });
  return createServer((incoming, outgoing) => void listener(incoming, outgoing));
}

/** Starts a server for one test that has its limits inside of `fetch`. */
export function startFetch(fetch: Fetch): Promise<RunningServer> {
  const framework = { name: 'fetch', createServer: () => fetchServer(fetch), headerOf: () => undefined };
  const policies = tokenBucket({ name: 'unused', average: 1, period: '1s' });
  return startServer(framework, { limiter: createLimiter(), policies });
}

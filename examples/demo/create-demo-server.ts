import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import {
  createLimiter,
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Clock,
  type Limit,
} from 'spillgate';
import { sendAdmission, sendDenial, sendProblem, sendText } from './answers.ts';
import { guide } from './guide.ts';

const api = tokenBucket({ name: 'api', average: 5, burst: 5, period: '10s' });
const login = slidingWindowLog({ name: 'login', quota: 3, window: '30s' });
const upload = tokenBucket({ name: 'upload', average: 10, burst: 10, period: '1m' });
const queue = leakyBucket({ name: 'queue', average: 2, period: '1s', maxDelay: '2s' });
const minute = slidingWindowCounter({ name: 'minute', quota: 3, window: '1m' });
const day = fixedWindow({ name: 'day', quota: 1000, window: '1d' });

/** Which limits a request meets. Two limits in one check are charged together, or not at all. */
const ROUTES = new Map<string, (client: string) => readonly Limit[]>([
  ['/api', (client) => [api.for(client)]],
  ['/login', (client) => [login.for(client)]],
  ['/upload', (client) => [upload.for(client)]],
  ['/queue', (client) => [queue.for(client)]],
  ['/both', (client) => [minute.for(client), day.for('everybody')]],
]);

export interface DemoOptions {
  /** Whole microseconds. Default: the limiter's own monotonic clock. */
  readonly clock?: Clock | undefined;
  /** How a queued request waits for its turn. Default: a timer. */
  readonly sleep?: ((ms: number) => Promise<unknown>) | undefined;
}

/** The demo, not yet listening. Closing the server closes its limiter too. */
export function createDemoServer({ clock, sleep = wait }: DemoOptions = {}): Server {
  const limiter = createLimiter({ clock });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = '/', query] = (request.url ?? '/').split('?', 2);
    if (path === '/') return sendText(response, guide(request.socket.localPort ?? 0));

    const limitsFor = ROUTES.get(path);
    if (limitsFor === undefined) {
      return sendProblem(response, 404, `There is no ${path} here. Try ${[...ROUTES.keys()].join(', ')}.`);
    }
    // The peer of the socket. Behind a proxy that is the proxy: reading its headers safely comes with the HTTP
    // adapters.
    const limits = limitsFor(request.socket.remoteAddress ?? 'gone');
    const largest = Math.min(...limits.map((limit) => limit.policy.limit));
    const cost = readCost(query, largest);
    if (cost === undefined) {
      return sendProblem(response, 400, `cost has to be a whole number from 0 to ${largest}; 0 only looks.`);
    }

    const decision = await limiter.check(limits, { cost });
    if (!decision.allowed) return sendDenial(response, decision);
    // Only a queue (leaky bucket) asks for a wait; everywhere else this is 0.
    if (decision.delayMs > 0) await sleep(Math.ceil(decision.delayMs));
    return sendAdmission(response, decision);
  }

  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      console.error(error);
      sendProblem(response, 500, 'This is a bug in the demo; the server printed the error.');
    });
  });
  return server.on('close', () => void limiter.close());
}

/** The cost in the query, 1 if there is none, undefined if it cannot be used. */
function readCost(query: string | undefined, largest: number): number | undefined {
  const text = new URLSearchParams(query).get('cost') ?? '1';
  const cost = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  return cost <= largest ? cost : undefined;
}

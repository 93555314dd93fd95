import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';

export type Handler = (request: IncomingMessage, response: ServerResponse) => void;

const AT_ONCE = 64;

/**
 * Hands requests to a server's handler for as long as the budget says, and answers the processor time of one. The
 * responses are made in full and sent nowhere: what the kernel does for a socket takes many times longer than a
 * limiter, and never the same.
 */
export async function cpuUsWithoutSockets(handle: Handler, budgetMs: number): Promise<number> {
  const ends = performance.now() + budgetMs;
  const sockets = Array.from({ length: AT_ONCE }, clientSocket);
  let requests = 0;
  const before = process.cpuUsage();
  // At least once: a busy machine may have used up the budget before it begins.
  do {
    const responses = sockets.map((socket) => serveOne(handle, socket));
    await nextTurn();
    for (const response of responses) requireServed(response);
    requests += responses.length;
  } while (performance.now() < ends);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / requests;
}

function serveOne(handle: Handler, socket: Socket): ServerResponse {
  const request = new IncomingMessage(socket);
  Object.assign(request, {
    method: 'GET',
    url: '/',
    httpVersion: '1.1',
    httpVersionMajor: 1,
    httpVersionMinor: 1,
    rawHeaders: ['Host', 'localhost'],
    headers: { host: 'localhost' },
  });
  request.push(null);
  const response = new ServerResponse(request);
  handle(request, response);
  return response;
}

function requireServed({ statusCode, writableEnded }: ServerResponse): void {
  if (statusCode !== 200 || !writableEnded)
    throw new Error(`a request got ${statusCode}${writableEnded ? '' : ', and no end'}`);
}

function clientSocket(): Socket {
  return Object.defineProperty(new Socket(), 'remoteAddress', { value: '127.0.0.1' });
}

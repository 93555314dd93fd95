// What callers send to the decision service, over connections that stay open.
import { Agent, request } from 'node:http';
import { connect, type ClientHttp2Session, type IncomingHttpHeaders } from 'node:http2';

/** Sends calls until the time is over; resolves to how many were answered. */
export type SendCalls = (port: number, budgetMs: number) => Promise<number>;

const CONNECTIONS = 16;
const STREAMS = 64;

/** POST of a body that never changes. */
export function httpCalls(path: string, body: object): SendCalls {
  const text = JSON.stringify(body);
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
  return async (port, budgetMs) => {
    const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
    const send = async (): Promise<number> =>
      new Promise((resolve, reject) => {
        const call = request(
          { port, host: '127.0.0.1', path, method: 'POST', agent, headers },
          (response) => {
            response.resume();
            response.once('end', () => resolve(response.statusCode ?? 0));
          },
        );
        call.once('error', reject);
        call.end(text);
      });
    const sent = await inParallel(CONNECTIONS, budgetMs, async () => requireOk(await send(), path));
    agent.destroy();
    return sent;
  };
}

/** GET with headers that never change. */
export function forwardAuthCalls(headers: Readonly<Record<string, string>>): SendCalls {
  return async (port, budgetMs) => {
    const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
    const path = '/v1/forward-auth';
    const send = async (): Promise<number> =>
      new Promise((resolve, reject) => {
        const call = request({ port, host: '127.0.0.1', path, agent, headers }, (response) => {
          response.resume();
          response.once('end', () => resolve(response.statusCode ?? 0));
        });
        call.once('error', reject);
        call.end();
      });
    const sent = await inParallel(CONNECTIONS, budgetMs, async () => requireOk(await send(), path));
    agent.destroy();
    return sent;
  };
}

/** A unary gRPC call with a message that never changes, on one connection as Envoy has it. */
export function grpcCalls(path: string, message: Buffer): SendCalls {
  const frame = Buffer.concat([Buffer.from([0]), lengthOf(message), message]);
  return async (port, budgetMs) => {
    const session = connect(`http://127.0.0.1:${port}`);
    const sent = await inParallel(STREAMS, budgetMs, async () =>
      requireGrpcOk(await grpcCall(session, path, frame)),
    );
    session.destroy();
    return sent;
  };
}

function lengthOf(message: Buffer): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(message.length);
  return bytes;
}

async function grpcCall(session: ClientHttp2Session, path: string, frame: Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.once('error', reject);
    stream.once('trailers', (trailers: IncomingHttpHeaders) => resolve(String(trailers['grpc-status'])));
    stream.resume();
    stream.end(frame);
  });
}

async function inParallel(count: number, budgetMs: number, send: () => Promise<void>): Promise<number> {
  const end = performance.now() + budgetMs;
  let sent = 0;
  const lane = async (): Promise<void> => {
    while (performance.now() < end) {
      await send();
      sent += 1;
    }
  };
  await Promise.all(Array.from({ length: count }, lane));
  return sent;
}

function requireOk(status: number, path: string): void {
  if (status !== 200) throw new Error(`${path} answered ${status}`);
}

function requireGrpcOk(status: string): void {
  if (status !== '0') throw new Error(`a call ended with the status ${status}`);
}

import { connect, type Socket } from 'node:net';

const REQUEST = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';
const HEADERS_END = Buffer.from('\r\n\r\n');

/** Sends as many requests as fit into the time over kept-alive connections, and counts the answers. */
export async function sendRequests(port: number, connections: number, budgetMs: number): Promise<number> {
  const ends = performance.now() + budgetMs;
  const lanes = Array.from({ length: connections }, () => new Connection(port));
  const counts = await Promise.all(lanes.map((lane) => lane.run(ends)));
  return counts.reduce((sum, count) => sum + count, 0);
}

/** One request at a time, the next one as soon as the last is answered. */
class Connection {
  readonly #socket: Socket;
  #received = Buffer.alloc(0);
  #answered = 0;

  constructor(port: number) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
  }

  run(ends: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#socket.once('error', reject);
      this.#socket.on('data', (chunk) => {
        this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
        const length = answerLength(this.#received);
        if (length === undefined || this.#received.length < length) return;
        this.#received = this.#received.subarray(length);
        this.#answered += 1;
        if (performance.now() < ends) {
          this.#socket.write(REQUEST);
        } else {
          this.#socket.destroy();
          resolve(this.#answered);
        }
      });
      this.#socket.write(REQUEST);
    });
  }
}

const SERVED = /^HTTP\/1\.1 200 /;
/** The first requests may pass. */
export const DENIED: RegExp = /^HTTP\/1\.1 (?:200|429) /;

/**
 * Bytes of the answer that starts here; undefined while its headers are incomplete. Any other status than these is a
 * mistake.
 */
export function answerLength(received: Buffer, statuses: RegExp = SERVED): number | undefined {
  const headersEnd = received.indexOf(HEADERS_END);
  if (headersEnd < 0) return undefined;
  const headers = received.toString('latin1', 0, headersEnd);
  const length = /\r\ncontent-length: (\d+)/i.exec(headers)?.[1];
  if (!statuses.test(headers) || length === undefined) {
    throw new Error(`expected a 200 with its length, got ${headers.split('\r\n')[0] ?? ''}`);
  }
  return headersEnd + HEADERS_END.length + Number(length);
}

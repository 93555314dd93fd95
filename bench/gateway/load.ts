import { connect, type Socket } from 'node:net';

import { answerLength, DENIED } from '../http/load.ts';
import { Latencies, type Percentiles } from '../redis/latencies.ts';

const REQUEST = [
  'GET /api/items/42?verbose=1 HTTP/1.1',
  'Host: shop.example.com',
  'User-Agent: bench/1.0',
  'Accept: application/json',
  'Accept-Encoding: gzip, br',
  'Authorization: Bearer 0123456789abcdef0123456789abcdef',
  'Cookie: session=0123456789abcdef',
  'X-Client-Version: 4.2.0',
  '',
  '',
].join('\r\n');

export interface Load {
  readonly requests: number;
  readonly latencyUs: Percentiles;
}

/** A request such as a browser sends over kept-alive connections, the next one as soon as the last is answered. */
export async function sendLoad(
  { port, denies = false }: { readonly port: number; readonly denies?: boolean },
  connections: number,
  budgetMs: number,
): Promise<Load> {
  const ends = performance.now() + budgetMs;
  const latencies = new Latencies();
  const lanes = Array.from({ length: connections }, () =>
    run({ port, ends, statuses: denies ? DENIED : undefined }, latencies),
  );
  const counts = await Promise.all(lanes);
  return { requests: counts.reduce((sum, count) => sum + count, 0), latencyUs: latencies.percentiles() };
}

interface Lane {
  readonly port: number;
  readonly ends: number;
  readonly statuses: RegExp | undefined;
}

function run({ port, ends, statuses }: Lane, latencies: Latencies): Promise<number> {
  const socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true });
  return new Promise((resolve, reject) => {
    let [received, answered, sentMs] = [Buffer.alloc(0), 0, performance.now()];
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('The proxy closed a kept-alive connection.')));
    socket.on('data', (chunk) => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      const length = answerLength(received, statuses);
      if (length === undefined || received.length < length) return;
      received = received.subarray(length);
      answered += 1;
      const nowMs = performance.now();
      latencies.add((nowMs - sentMs) * 1000);
      sentMs = nowMs;
      if (nowMs < ends) {
        socket.write(REQUEST);
      } else {
        socket.removeAllListeners('close');
        socket.destroy();
        resolve(answered);
      }
    });
    socket.write(REQUEST);
  });
}

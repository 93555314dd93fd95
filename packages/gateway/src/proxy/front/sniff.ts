import type { Socket } from 'node:net';

/** What a client of HTTP/2 says first (RFC 9113 §3.4). */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

/** Waits for the first bytes of a connection without TLS, and says which version of HTTP they are. They stay unread. */
export function sniff(socket: Socket, timeoutMs: number, decide: (http2: boolean) => void): void {
  const timer = setTimeout(() => socket.destroy(), timeoutMs);
  const look = (): void => {
    const bytes: unknown = socket.read();
    if (!Buffer.isBuffer(bytes)) return;
    const compared = Math.min(bytes.length, PREFACE.length);
    const fits = bytes.subarray(0, compared).equals(PREFACE.subarray(0, compared));
    socket.unshift(bytes);
    if (fits && compared < PREFACE.length && !socket.readableEnded) return;
    done();
    decide(fits && compared === PREFACE.length);
  };
  const done = (): void => {
    clearTimeout(timer);
    socket.off('readable', look).off('end', done).off('close', done).off('error', ignore);
  };
  socket.on('readable', look).on('end', done).on('close', done).on('error', ignore);
}

function ignore(): void {
  // A connection that breaks before its first request concerns nobody; 'close' follows.
}

import type { Socket } from 'node:net';

/** What a client of HTTP/2 says first (RFC 9113 §3.4). */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

/**
 * Waits for the first bytes of a connection without TLS, and says which version of HTTP they are. They are there to be
 * read again.
 */
export function sniff(
  socket: Socket,
  timeoutMs: number,
  decide: (http2: boolean, seen: Buffer) => void,
): void {
  const timer = setTimeout(() => socket.destroy(), timeoutMs);
  let seen: Buffer = Buffer.alloc(0);

  const look = (): void => {
    const bytes: unknown = socket.read();
    if (!Buffer.isBuffer(bytes)) return;
    // What does not decide yet is kept here: put back, it would be reported as readable again and again.
    seen = seen.length === 0 ? bytes : Buffer.concat([seen, bytes]);
    const compared = Math.min(seen.length, PREFACE.length);
    const fits = seen.subarray(0, compared).equals(PREFACE.subarray(0, compared));
    if (fits && compared < PREFACE.length) return;
    stop();
    socket.unshift(seen);
    decide(fits, seen);
  };
  const stop = (): void => {
    clearTimeout(timer);
    socket.off('readable', look).off('end', end).off('close', stop).off('error', ignore);
  };
  const end = (): void => {
    stop();
    socket.destroy();
  };
  socket.on('readable', look).on('end', end).on('close', stop).on('error', ignore);
}

function ignore(): void {
  // A connection that breaks before its first request concerns nobody; 'close' follows.
}

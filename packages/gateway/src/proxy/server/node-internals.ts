// What leans on how Node.js works inside, and not on what it documents. Tried with Node.js 20.20;
// node-internals.test.ts fails where another release works differently.
//
// - here: reading stops only for those who hear `pause`, and `resume` is replaced while it is stopped;
// - here: the handle of a socket knows how much of what was written has left for the system;
// - http-server.ts takes the one listener with which an HTTP server serves a connection, and calls it itself; emits
//   `listening`, which starts the checks of its timeouts; sets `httpAllowHalfOpen`, so that a half-closed client gets
//   its answer;
// - http1-connection.ts replaces `destroySoon`, by which a response closes its connection, to read the rest of a body
//   first;
// - http1-exchange.ts replaces `push`, `headers` and `upgrade` of a request;
// - http2-connection.ts replaces `push` of a stream, to count frames where they arrive;
// - service-server.ts emits `listening` on a server of HTTP/1, as http-server.ts does.
import type { Socket } from 'node:net';

/**
 * Reads nothing more of a connection that an HTTP server serves, until the function is called that it returns.
 * `pause()` alone does not last: the server resumes the socket with every request that is over, and a `resume` event
 * that was on its way when the socket was paused makes it read again. Its parser takes what the system delivers without
 * a look at the state of the stream.
 */
export function stopReading(socket: Socket): () => void {
  // The server stops reading when it hears that the socket is paused, whatever the socket says about itself.
  const stopAgain = (): boolean => socket.emit('pause');
  socket.pause();
  socket.on('resume', stopAgain);
  socket.resume = () => socket;
  return () => {
    Reflect.deleteProperty(socket, 'resume');
    socket.off('resume', stopAgain);
    socket.resume();
  };
}

interface StreamHandle {
  readonly bytesWritten?: number;
  readonly writeQueueSize?: number;
  /** Below TLS. */
  readonly _parent?: StreamHandle;
}

/**
 * What the system has taken of all that was written to a socket. A socket itself says only when a whole write has left,
 * and for a client that reads slowly that may take minutes.
 */
export function sentBytes(socket: Socket): number {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- internal, and so not in the types of Node.js; every field may be missing
  const { _handle: handle } = socket as { readonly _handle?: StreamHandle | null };
  const { _parent: belowTls } = handle ?? {};
  const { bytesWritten = 0, writeQueueSize = 0 } = belowTls ?? handle ?? {};
  return bytesWritten - writeQueueSize;
}

// Everything that leans on how Node.js works inside, and not on what it documents. node-internals.test.ts fails where a release changes it.
// Tried with Node.js 20.20.
import type { Socket } from 'node:net';

/**
 * Reads nothing more of a connection that an HTTP server serves, until the function is called that it returns. `pause()` alone does not last:
 * the server resumes the socket with every request that is over, and a `resume` event that was on its way when the socket was paused makes it
 * read again. Its parser takes what the system delivers without a look at the state of the stream.
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

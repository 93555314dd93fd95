import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { onTestFinished } from 'vitest';

/** A hostile client, alone in a process, so that it takes nothing from those that are measured beside it. */
const PROGRAM = `
import { connect } from 'node:net';

process.once('message', ({ port, opening, pieces, endless, reads, lastsMs }) => {
  const startedAt = performance.now();
  const socket = connect({ port, host: '127.0.0.1' });
  let sent = 0;
  let rest = Buffer.alloc(0);
  let goaway;
  socket.on('error', () => undefined);
  socket.on('data', (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
      const length = rest.readUIntBE(0, 3);
      if (rest[3] === 7) goaway = rest.readUInt32BE(13);
      rest = rest.subarray(9 + length);
    }
  });
  if (!reads) socket.pause();
  const step = () => {
    if (socket.destroyed || (sent >= pieces.length && !endless)) return;
    const more = socket.write(pieces[sent % pieces.length]);
    sent += 1;
    if (more) setImmediate(step);
    else socket.once('drain', step);
  };
  socket.once('connect', () => {
    socket.write(opening);
    step();
  });
  const over = (closed) => process.send({ closed, ms: performance.now() - startedAt, goaway, bytes: socket.bytesWritten - socket.writableLength });
  const deadline = setTimeout(() => {
    over(false);
    socket.destroy();
  }, lastsMs);
  socket.once('close', () => {
    clearTimeout(deadline);
    over(true);
  });
});
process.on('disconnect', () => process.exit());
process.send('ready');
`;

export interface Flood {
  readonly port: number;
  /** What a connection begins with. */
  readonly opening: Buffer;
  readonly pieces: readonly Buffer[];
  /** The pieces over and over, instead of once. */
  readonly endless: boolean;
  /** Whether it reads what it is sent. */
  readonly reads: boolean;
  readonly lastsMs: number;
}

export interface FloodEnd {
  /** The other side ended the connection; otherwise the time was over. */
  readonly closed: boolean;
  readonly ms: number;
  /** The error code of the last GOAWAY that arrived. */
  readonly goaway: number | undefined;
  /** What the kernel took of it. */
  readonly bytes: number;
}

/** Answers when the connection is ended, or the flood over. */
export async function flood(what: Flood): Promise<FloodEnd> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    serialization: 'advanced',
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child, 'message');
  child.send(what);
  const [end] = (await once(child, 'message')) as [FloodEnd];
  child.disconnect();
  return end;
}

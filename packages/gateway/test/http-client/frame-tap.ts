import { connect, createServer as createPlainServer } from 'node:net';
import { listen } from '../proxy/local-server.ts';

const FRAMES: Readonly<Record<number, string>> = { 0: 'DATA', 1: 'HEADERS', 3: 'RESET' };
const PREFACE_BYTES = 24;
const FRAME_HEADER_BYTES = 9;

/**
 * Shows which frames of requests go to a server; `END` follows the name of a frame that ends the body, and `RESET` its
 * code.
 */
export async function tap(port: number): Promise<{ readonly port: number; readonly frames: () => string }> {
  let seen = Buffer.alloc(0);
  const local = await listen(
    createPlainServer((client) => {
      const server = connect(port, '127.0.0.1');
      client.on('data', (chunk: Buffer) => {
        seen = Buffer.concat([seen, chunk]);
      });
      client.pipe(server).pipe(client);
      server.on('error', () => client.destroy());
    }),
  );
  const frames = (): string => {
    const names: string[] = [];
    for (let at = PREFACE_BYTES; at + FRAME_HEADER_BYTES <= seen.length;) {
      const ends = ((seen[at + 4] ?? 0) & 1) === 1;
      const name = FRAMES[seen[at + 3] ?? 0];
      if (name === 'RESET') names.push(`RESET ${seen.readUInt32BE(at + FRAME_HEADER_BYTES)}`);
      else if (name !== undefined) names.push(ends ? `${name} END` : name);
      at += FRAME_HEADER_BYTES + seen.readUIntBE(at, 3);
    }
    return names.join(' ');
  };
  return { port: local.port, frames };
}

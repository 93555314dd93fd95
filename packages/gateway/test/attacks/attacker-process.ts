import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** Hostile clients, alone in a process, so that they take nothing from the one that is measured beside them. */
const PROGRAM = `
import { connect } from 'node:net';
import { connect as connectSecure } from 'node:tls';

let over = false;
const stats = { connections: 0, cutOff: 0, bytes: 0 };
process.once('message', (attack) => {
  for (let at = 0; at < attack.connections; at += 1) setTimeout(() => open(attack), at * 2);
});
function open(attack) {
  if (over) return;
  const { port, secure, protocol, opening, piece, everyMs, reads, reconnects, endsAfterMs } = attack;
  const address = { port, host: '127.0.0.1', allowHalfOpen: true };
  const socket = secure ? connectSecure({ ...address, rejectUnauthorized: false, ALPNProtocols: [protocol] }) : connect(address);
  stats.connections += 1;
  socket.on('error', () => undefined);
  if (reads) socket.resume();
  else socket.pause();
  socket.on('end', () => socket.destroy());
  socket.on('close', () => {
    stats.bytes += socket.bytesWritten;
    if (over) return;
    stats.cutOff += 1;
    if (reconnects) setTimeout(() => open(attack), 1);
  });
  const step = () => {
    if (socket.destroyed || over || piece.length === 0) return;
    const more = socket.write(piece);
    if (everyMs > 0) setTimeout(step, everyMs);
    else if (more) setImmediate(step);
    else socket.once('drain', step);
  };
  socket.once(secure ? 'secureConnect' : 'connect', () => {
    socket.write(opening);
    if (endsAfterMs > 0) setTimeout(() => socket.end(), endsAfterMs);
    step();
  });
}
process.on('message', (message) => {
  if (message !== 'stop') return;
  over = true;
  process.send(stats);
});
process.on('disconnect', () => process.exit());
process.send('ready');
`;

/** What each of some hostile connections does. */
export interface Attack {
  readonly connections: number;
  readonly protocol: 'http/1.1' | 'h2';
  readonly opening: Buffer;
  /** Sent over and over. */
  readonly piece: Buffer;
  /** 0: as fast as it is taken. */
  readonly everyMs: number;
  /** Whether it reads what it is sent. */
  readonly reads: boolean;
  /** It comes back when it is cut off. */
  readonly reconnects: boolean;
  /** It closes its sending side after so long. 0: never. */
  readonly endsAfterMs: number;
  /** Who is attacked, and asked meanwhile. `admin`: where probes of the gateway come in; with nginx, its plain port. */
  readonly door: 'clients' | 'admin';
}

export interface AttackStats {
  readonly connections: number;
  readonly cutOff: number;
  readonly bytes: number;
}

export interface RunningAttack {
  stop(): Promise<AttackStats>;
}

export async function startAttack(
  attack: Attack,
  target: { readonly port: number; readonly secure: boolean },
): Promise<RunningAttack> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    serialization: 'advanced',
  });
  await once(child, 'message');
  child.send({ ...attack, ...target });
  return {
    stop: async () => {
      child.send('stop');
      const [stats] = (await once(child, 'message')) as [AttackStats];
      child.disconnect();
      await once(child, 'exit');
      return stats;
    },
  };
}

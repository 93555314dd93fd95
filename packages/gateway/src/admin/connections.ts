import type { Socket } from 'node:net';
import { ThrottledWarning, type Log } from '../telemetry/log.ts';

const MAX_CONNECTIONS = 256;
/** Nobody can fill the port alone: whoever asks for health from another address gets through. */
const MAX_CONNECTIONS_PER_ADDRESS = 64;

/**
 * The open connections of the admin server. Where there are too many, the one that has been without a request for longest is closed: whoever only
 * keeps connections open cannot keep probes out. A request under way is never cut off.
 */
export class AdminConnections {
  private readonly warning: ThrottledWarning;
  /** Those that were used last come last. */
  private readonly open = new Map<Socket, string>();
  private readonly busy = new Set<Socket>();

  constructor(log: Log) {
    this.warning = new ThrottledWarning(
      log,
      'too many connections to the admin server: idle ones are closed',
    );
  }

  /** Counts a connection until it closes; false if there is no room for it, and then it is closed. */
  admits(socket: Socket): boolean {
    const address = socket.remoteAddress ?? '';
    const ofAddress = [...this.open].filter(([, other]) => other === address).map(([other]) => other);
    if (ofAddress.length >= MAX_CONNECTIONS_PER_ADDRESS && !this.makeRoom(ofAddress, address, socket))
      return false;
    if (this.open.size >= MAX_CONNECTIONS && !this.makeRoom([...this.open.keys()], address, socket))
      return false;
    this.open.set(socket, address);
    socket.once('close', () => {
      this.open.delete(socket);
      this.busy.delete(socket);
    });
    return true;
  }

  requested(socket: Socket): void {
    this.busy.add(socket);
  }

  answered(socket: Socket): void {
    this.busy.delete(socket);
    const address = this.open.get(socket);
    if (address === undefined) return;
    this.open.delete(socket);
    this.open.set(socket, address);
  }

  private makeRoom(candidates: readonly Socket[], address: string, newcomer: Socket): boolean {
    this.warning.warn({ address });
    const idle = candidates.find((socket) => !this.busy.has(socket));
    const closed = idle ?? newcomer;
    // At once, not when its close is heard: the next newcomer counts before that.
    this.open.delete(closed);
    closed.destroy();
    return idle !== undefined;
  }
}

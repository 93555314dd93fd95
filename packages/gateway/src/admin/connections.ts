import type { Socket } from 'node:net';
import { type Log, ThrottledWarning } from '../telemetry/log.ts';

const MAX_CONNECTIONS = 256;
/** Nobody can fill the port alone: whoever asks for health from another address gets through. */
const MAX_CONNECTIONS_PER_ADDRESS = 64;
/** So few connections of an address are served at once, however many others there are: a probe needs one. */
const RESERVED_PER_ADDRESS = 4;
/**
 * An address that has its share gets a new connection in place of an idle one once in this time. Whoever opens a
 * connection for each that is closed would otherwise keep the process busy with nothing else.
 */
const REPLACE_EVERY_MS = 2;
/** Connections that wait for that; beyond it, the one that has waited longest is closed. */
const MAX_WAITING = 1024;
/** Whoever has waited so long has given up. */
const MAX_WAIT_MS = 10_000;

/** What one address has. */
interface AdminAddress {
  readonly address: string;
  open: number;
  /** Those that were used last come last. */
  readonly idle: Set<Socket>;
  /** When each began to wait; nothing of them is read. */
  readonly waiting: Map<Socket, number>;
  replacedAtMs: number;
  timer: NodeJS.Timeout | undefined;
}

/**
 * The open connections of the admin server. Where there are too many, the one that has been without a request for
 * longest makes room: whoever only keeps connections open cannot keep probes out. A request under way is never cut off.
 */
export class AdminConnections {
  private readonly serve: (socket: Socket) => void;
  private readonly warning: ThrottledWarning;
  private readonly callers = new Map<string, AdminAddress>();
  /** Only those that are served. */
  private readonly open = new Map<Socket, AdminAddress>();
  /** Of all addresses. Those that were used last come last. */
  private readonly idle = new Set<Socket>();
  private waiting = 0;

  constructor(log: Log, serve: (socket: Socket) => void) {
    this.serve = serve;
    this.warning = new ThrottledWarning(
      log,
      'too many connections to the admin server: idle ones are closed',
    );
  }

  /** Serves a connection now, or when it is its turn. */
  arrived(socket: Socket): void {
    const caller = this.callerAt(socket.remoteAddress ?? '');
    if (this.hasRoom(caller)) this.take(caller, socket);
    else this.wait(caller, socket);
  }

  requested(socket: Socket): void {
    this.idle.delete(socket);
    this.open.get(socket)?.idle.delete(socket);
  }

  answered(socket: Socket): void {
    const caller = this.open.get(socket);
    if (caller === undefined) return;
    caller.idle.add(socket);
    this.idle.add(socket);
  }

  /** Closes those that wait. */
  close(): void {
    for (const { waiting, timer } of this.callers.values()) {
      clearTimeout(timer);
      for (const socket of waiting.keys()) socket.destroy();
    }
  }

  private callerAt(address: string): AdminAddress {
    const known = this.callers.get(address);
    if (known !== undefined) return known;
    const caller: AdminAddress = {
      address,
      open: 0,
      idle: new Set(),
      waiting: new Map(),
      replacedAtMs: -Infinity,
      timer: undefined,
    };
    this.callers.set(address, caller);
    return caller;
  }

  /** May close an idle connection of another address, which has more of them. */
  private hasRoom(caller: AdminAddress): boolean {
    if (caller.open >= MAX_CONNECTIONS_PER_ADDRESS) return false;
    if (this.open.size < MAX_CONNECTIONS) return caller.waiting.size === 0;
    return caller.open < RESERVED_PER_ADDRESS && this.closeIdle(this.idle, caller);
  }

  private take(caller: AdminAddress, socket: Socket): void {
    caller.open += 1;
    this.open.set(socket, caller);
    caller.idle.add(socket);
    this.idle.add(socket);
    socket.once('close', () => this.gone(socket));
    this.serve(socket);
  }

  private wait(caller: AdminAddress, socket: Socket): void {
    caller.waiting.set(socket, performance.now());
    this.waiting += 1;
    // Without a listener an error of it would end the process.
    socket.on('error', ignore);
    socket.once('close', () => this.leave(caller, socket));
    if (this.waiting > MAX_WAITING) this.closeLongestWaiting(caller);
    if (caller.timer === undefined) this.replace(caller);
  }

  private replace(caller: AdminAddress): void {
    caller.timer = undefined;
    const nowMs = performance.now();
    for (const [socket, sinceMs] of caller.waiting) {
      if (nowMs - sinceMs < MAX_WAIT_MS) break;
      this.leave(caller, socket);
      socket.destroy();
    }
    // The newest would be one that has just been closed and came again.
    const [next] = caller.waiting.keys();
    if (next === undefined) return;
    const pauseMs = caller.replacedAtMs + REPLACE_EVERY_MS - nowMs;
    if (pauseMs <= 0 && this.makesRoom(caller)) {
      caller.replacedAtMs = nowMs;
      next.off('error', ignore);
      this.take(caller, next);
      this.leave(caller, next);
    }
    if (caller.waiting.size === 0) return;
    const againMs = pauseMs > 0 ? Math.ceil(pauseMs) : REPLACE_EVERY_MS;
    caller.timer = setTimeout(() => this.replace(caller), againMs).unref();
  }

  /** An address with its share gives one of its own connections; else whoever has been idle for longest. */
  private makesRoom(caller: AdminAddress): boolean {
    if (caller.open >= MAX_CONNECTIONS_PER_ADDRESS) return this.closeIdle(caller.idle, caller);
    return this.open.size < MAX_CONNECTIONS || this.closeIdle(this.idle, caller);
  }

  private closeIdle(candidates: ReadonlySet<Socket>, { address }: AdminAddress): boolean {
    this.warning.warn({ address });
    const [idle] = candidates;
    if (idle === undefined) return false;
    // At once, not when its close is heard: the next newcomer counts before that.
    this.gone(idle);
    idle.destroy();
    return true;
  }

  private closeLongestWaiting(caller: AdminAddress): void {
    const [longest] = caller.waiting.keys();
    if (longest === undefined) return;
    this.leave(caller, longest);
    longest.destroy();
  }

  private leave(caller: AdminAddress, socket: Socket): void {
    if (!caller.waiting.delete(socket)) return;
    this.waiting -= 1;
    this.forgetIfGone(caller);
  }

  private gone(socket: Socket): void {
    const caller = this.open.get(socket);
    if (caller === undefined) return;
    this.requested(socket);
    this.open.delete(socket);
    caller.open -= 1;
    this.forgetIfGone(caller);
  }

  private forgetIfGone(caller: AdminAddress): void {
    if (caller.open > 0 || caller.waiting.size > 0) return;
    clearTimeout(caller.timer);
    this.callers.delete(caller.address);
  }
}

function ignore(): void {
  // A connection that breaks before it is served concerns nobody; 'close' follows.
}

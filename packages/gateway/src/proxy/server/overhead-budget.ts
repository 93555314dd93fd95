import type { Socket } from 'node:net';
import { TokenMeter } from 'spillgate/internal';
import type { Config } from '../../config/config.ts';
import { ThrottledWarning, type Log } from '../../telemetry/log.ts';
import type { TrafficListener } from '../../telemetry/traffic.ts';
import { readingRules } from '../request/read-request.ts';

/**
 * What makes work and carries nothing, and how many bytes of the budget each one costs: about as many as would make the
 * same work if they carried something.
 */
const COSTS = {
  /**
   * Each byte that a DATA frame or a chunk lacks to `SMALL_PIECE_BYTES`. The first one of a body is free, so that short
   * bodies are.
   */
  smallPiece: 2,
  /** PING, SETTINGS and PRIORITY. Clients that measure the way send a PING per round trip. */
  controlFrame: 256,
  /** A request that the client began and broke off: it costs us a request to a backend, and the client nothing. */
  cancelledRequest: 4096,
  malformedRequest: 4096,
  /**
   * A byte that belongs to no request: WINDOW_UPDATE, unknown frames, padding, frames of closed streams, empty lines
   * between requests.
   */
  emptyByte: 1,
} as const;

export type Overhead = keyof typeof COSTS;

/** Pieces of a body that are smaller than this cost more work than they carry. */
export const SMALL_PIECE_BYTES = 64;

/** The budget is whole again after so long. */
const REFILL_S = 8;
/** How long the new connections of an address that used up its budget are served one after the other. */
const SUSPECT_MS = 2000;
/** Addresses that are remembered; beyond that, the one that was heard of longest ago is forgotten. */
const MAX_ADDRESSES = 10_000;

interface AddressBudget {
  readonly meter: TokenMeter;
  /** When it was found used up. */
  usedUpAtMs: number;
}

export interface OverheadBudgetsParts {
  readonly config: () => Config;
  readonly traffic: TrafficListener;
  readonly log: Log;
}

/**
 * How much every client address may still send that carries nothing, over all of its connections: one that is cut off
 * and connects again does not start anew.
 */
export class OverheadBudgets {
  private readonly parts: OverheadBudgetsParts;
  private readonly warning: ThrottledWarning;
  /** The one that was used last is last. */
  private readonly addresses = new Map<string, AddressBudget>();
  private budgetBytes = 0;

  constructor(parts: OverheadBudgetsParts) {
    this.parts = parts;
    this.warning = new ThrottledWarning(
      parts.log,
      'server.max_overhead_per_address is used up: connections of this address are cut off. If it is a load balancer, name it in server.client_address.trusted_proxies',
    );
  }

  /** Addresses that are remembered. */
  get size(): number {
    return this.addresses.size;
  }

  /** What a connection spends from; `cut` is called once, when that is used up. */
  forPeer(peer: string | undefined, cut: () => void): ConnectionOverhead {
    const rules = readingRules(this.parts.config());
    // Behind a proxy are many clients: what one of them does must not be charged to the others.
    const address = rules.trustsPeer(peer) ? undefined : rules.keyOfPeer(peer);
    return new ConnectionOverhead(this, { address, peer, cut });
  }

  /** How long ago the address used up its budget; undefined if that is long ago. */
  usedUpForMs(address: string | undefined): number | undefined {
    const budget = address === undefined ? undefined : this.addresses.get(address);
    if (budget === undefined) return undefined;
    const agoMs = performance.now() - budget.usedUpAtMs;
    return agoMs < SUSPECT_MS ? agoMs : undefined;
  }

  /** @internal False: there is not so much left. */
  take(address: string, costBytes: number): boolean {
    const budget = this.budgetOf(address);
    if (budget === undefined) return true;
    const nowMs = performance.now();
    if (budget.meter.take(nowMs, costBytes)) return true;
    budget.usedUpAtMs = nowMs;
    return false;
  }

  /** @internal For connections that share no budget with others; undefined if there is no limit. */
  newMeter(): TokenMeter | undefined {
    const { max_overhead_per_address: bytes } = this.parts.config().server;
    return bytes === 0 ? undefined : new TokenMeter(bytes, Math.ceil(bytes / REFILL_S));
  }

  /** @internal */
  cutOff(overhead: Overhead, peer: string | undefined): void {
    this.parts.traffic.count('connectionsCutOff', overhead);
    this.warning.warn({ address: peer, overhead });
  }

  private budgetOf(address: string): AddressBudget | undefined {
    const { max_overhead_per_address: bytes } = this.parts.config().server;
    if (bytes !== this.budgetBytes) {
      this.budgetBytes = bytes;
      this.addresses.clear();
    }
    const known = this.addresses.get(address);
    const meter = known?.meter ?? this.newMeter();
    if (meter === undefined) return undefined;
    const budget = known ?? { meter, usedUpAtMs: -Infinity };
    this.addresses.delete(address);
    this.addresses.set(address, budget);
    if (this.addresses.size > MAX_ADDRESSES) this.forgetOldest();
    return budget;
  }

  private forgetOldest(): void {
    const { value: oldest } = this.addresses.keys().next();
    if (oldest !== undefined) this.addresses.delete(oldest);
  }
}

interface Spender {
  /** Undefined: it has a budget of its own. */
  readonly address: string | undefined;
  readonly peer: string | undefined;
  readonly cut: () => void;
}

/** What one connection sends that carries nothing. */
export class ConnectionOverhead {
  private readonly budgets: OverheadBudgets;
  private readonly spender: Spender;
  private own: TokenMeter | undefined;
  private over = false;

  constructor(budgets: OverheadBudgets, spender: Spender) {
    this.budgets = budgets;
    this.spender = spender;
  }

  /** The connection is about to end: nothing of it is worth any work. */
  get usedUp(): boolean {
    return this.over;
  }

  spend(overhead: Overhead, count = 1): void {
    if (this.over || this.take(overhead, count * COSTS[overhead])) return;
    this.over = true;
    this.budgets.cutOff(overhead, this.spender.peer);
    this.spender.cut();
  }

  private take(overhead: Overhead, costBytes: number): boolean {
    const { address } = this.spender;
    if (address !== undefined) return this.budgets.take(address, costBytes);
    // Requests of many clients come over a connection of a proxy.
    if (overhead === 'malformedRequest') return true;
    this.own ??= this.budgets.newMeter();
    return this.own?.take(performance.now(), costBytes) ?? true;
  }
}

/** What may come before it is known what it belongs to. */
const MAX_CREDIT_BYTES = 65_536;

/** The bytes that came over a connection and belong to no request. */
export class EmptyBytes {
  private readonly socket: Pick<Socket, 'bytesRead'>;
  private readonly overhead: Pick<ConnectionOverhead, 'spend'>;
  private seen: number;
  private credit = 0;

  constructor(socket: Pick<Socket, 'bytesRead'>, overhead: Pick<ConnectionOverhead, 'spend'>) {
    this.socket = socket;
    this.overhead = overhead;
    this.seen = socket.bytesRead;
  }

  /** So many of them were part of a request, or can be explained by a response. */
  carried(bytes: number): void {
    this.credit += bytes;
  }

  /** Charges what has come since the last look. */
  charge(): void {
    const { bytesRead } = this.socket;
    const empty = bytesRead - this.seen - this.credit;
    this.seen = bytesRead;
    this.credit = Math.min(Math.max(0, -empty), MAX_CREDIT_BYTES);
    if (empty > 0) this.overhead.spend('emptyByte', empty);
  }
}

import { joinHostPort } from '../../host-port.ts';
import type { AdaptedClient, OpenedClient } from './clients/client.ts';
import { findClientPackage, type ClientPackage } from './clients/client-package.ts';
import type { Command } from './script.ts';
import { RetryPace } from './retry-pace.ts';
import type { ServerAddress } from './server-address.ts';

/** A connection to one server, or to whatever an application's own client connects to. */
export interface RedisConnection {
  readonly name: string;
  /**
   * Resolves with the reply; fails while there is no connection. `asking` says `ASKING` right before the command on the
   * wire, without which a cluster's node does not accept keys of a slot that is moving to it.
   */
  send(command: Command, asking: boolean): Promise<unknown>;
  isReady(): boolean;
  /** Resolves when the first attempt to connect has ended, well or not. */
  readonly opening: Promise<void>;
  /** Why there is no connection, where that is known. */
  connectionError(): Error | undefined;
  /** Calls back each time that the connection can be used, or can be used again. */
  onReady(listener: () => void): void;
  /** Calls back each time that the connection is lost, and each time that an attempt to get another one fails. */
  onLost(listener: (error: Error) => void): void;
  /**
   * Gives the connection up for a new one, not too often. Where the application holds it, only when it has led nowhere
   * for `failingMs` of some seconds; then what to change in the application is returned.
   */
  renew(reason: Error, failingMs: number): string | undefined;
  close(): Promise<void>;
}

/**
 * A connection that was just replaced is given a chance. How often one is replaced in a steady outage follows the
 * probes.
 */
const MIN_RENEWAL_INTERVAL_MS = 250;
/** Shorter than that, no server is called dead because it does not answer to the handshake. */
const MIN_HANDSHAKE_MS = 1000;
/** A server that is well has answered by then. */
const UNUSUAL_HANDSHAKE_MS = 100;

/** An application may have its reasons to wait: its connection is not touched before that. */
const MIN_CLIENT_SILENCE_MS = 5000;
/** One that is no better off with a new connection is left alone for a while. */
const MIN_CLIENT_RENEWAL_INTERVAL_MS = 10_000;

/** The application's own client: it is neither opened nor closed here. */
export function connectionOf(
  client: AdaptedClient,
  name: string,
  opening: Promise<void> = firstOutcome(client),
): RedisConnection {
  const { execute, isReady, onLost, release } = client;
  let readyAtMs = -Infinity;
  let renewedAtMs = -Infinity;
  return {
    name,
    send: ({ key, name: command, args }) => execute(key, command, args),
    isReady,
    opening,
    connectionError: () => undefined,
    onReady: (listener) =>
      client.onReady(() => {
        readyAtMs = performance.now();
        listener();
      }),
    onLost,
    renew: (reason, failingMs) => {
      const nowMs = performance.now();
      // One that knows that it has no connection looks for another by itself.
      const silentMs = isReady() ? Math.min(failingMs, nowMs - readyAtMs) : 0;
      if (silentMs < MIN_CLIENT_SILENCE_MS) return undefined;
      if (nowMs < renewedAtMs + MIN_CLIENT_RENEWAL_INTERVAL_MS) return undefined;
      renewedAtMs = nowMs;
      const isRenewed = client.reconnect(name);
      return (
        `redis ${name}: the application's client calls its connection ready, but has failed for ${Math.floor(silentMs / 1000)} s (${reason.message.replace(/\.$/, '')}). ` +
        `${isRenewed ? 'It was made to connect again' : 'Only the application can make it connect again'}; ` +
        `to notice this by itself it needs ${client.watchfulOptions}.`
      );
    },
    close: async () => release(),
  };
}

/** An application's client may still be connecting when the store gets it. */
export function firstOutcome({ isReady, onReady, onLost }: AdaptedClient): Promise<void> {
  if (isReady()) return Promise.resolve();
  return new Promise((resolve) => {
    onReady(resolve);
    onLost(() => resolve());
  });
}

/**
 * Opened with whichever client package the application has installed. Commands fail at once while there is no
 * connection (the failure policy answers), and nothing is ever sent twice; reconnecting goes on in the background.
 */
export class OpenedConnection implements RedisConnection {
  readonly name: string;
  readonly opening: Promise<void>;
  private readonly address: ServerAddress;
  private readonly readyListeners: (() => void)[] = [];
  private readonly lostListeners: ((error: Error) => void)[] = [];
  private found: ClientPackage | undefined;
  private client: OpenedClient | undefined;
  private lastFailure: Error | undefined;
  private readonly pace = new RetryPace();
  private renewedAtMs = -Infinity;
  private handshakeTimer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;

  constructor(address: ServerAddress) {
    this.name = joinHostPort(address);
    this.address = address;
    this.opening = this.open();
  }

  send({ name, args }: Command, asking: boolean): Promise<unknown> {
    const client = this.connectedClient();
    // If this one fails, so does the next: one of them is enough to report.
    if (asking) client.execute('ASKING', []).catch(() => undefined);
    return client.execute(name, args).catch((error: unknown) => {
      // Why the connection broke says more than that a call broke with it.
      throw this.isReady() ? error : (this.lastFailure ?? error);
    });
  }

  isReady(): boolean {
    return this.client?.isReady() === true;
  }

  connectionError(): Error | undefined {
    return this.lastFailure;
  }

  onReady(listener: () => void): void {
    this.readyListeners.push(listener);
  }

  onLost(listener: (error: Error) => void): void {
    this.lostListeners.push(listener);
  }

  renew(reason: Error): undefined {
    if (performance.now() < this.renewedAtMs + MIN_RENEWAL_INTERVAL_MS) return;
    this.lastFailure = reason;
    this.replaceClient();
  }

  async close(): Promise<void> {
    this.closed = true;
    clearTimeout(this.handshakeTimer);
    // Not before the package has been loaded: there is nothing to close yet, but soon will be.
    await findClientPackage(this.address.clientPackage).catch(() => undefined);
    this.client?.close();
  }

  private async open(): Promise<void> {
    try {
      this.found = await findClientPackage(this.address.clientPackage);
    } catch (error) {
      this.noteLoss(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    if (this.closed) return;
    const outcome = new Promise<void>((resolve) => {
      this.readyListeners.push(resolve);
      this.lostListeners.push(() => resolve());
    });
    this.client = this.connect(this.found);
    await outcome;
  }

  private connect({ family, module }: ClientPackage): OpenedClient {
    const ifCurrent = (note: () => void): void => {
      if (this.client === client) note();
    };
    const client = family.open(module, this.address, {
      waiting: () => ifCurrent(() => this.noteWaiting()),
      ready: () => ifCurrent(() => this.noteReady()),
      lost: (error) => ifCurrent(() => this.noteLoss(error)),
      pauseMs: () => this.pace.nextPauseMs(),
    });
    return client;
  }

  private replaceClient(): void {
    const { found, client } = this;
    if (this.closed || found === undefined || client === undefined) return;
    this.renewedAtMs = performance.now();
    this.client = this.connect(found);
    client.close();
  }

  /** The system accepts connections for a server that stands still, and for some that are no longer there. */
  private noteWaiting(): void {
    const error = new Error('the server took the connection, but does not answer or is loading its data');
    const patienceMs = Math.max(this.address.connectTimeoutMs, MIN_HANDSHAKE_MS);
    // Until then why the last attempt failed says more: so may this one, and at once.
    this.waitForHandshake(UNUSUAL_HANDSHAKE_MS, () => {
      this.lastFailure = error;
      this.waitForHandshake(patienceMs - UNUSUAL_HANDSHAKE_MS, () => {
        this.noteLoss(error);
        this.replaceClient();
      });
    });
  }

  private waitForHandshake(waitMs: number, inVain: () => void): void {
    clearTimeout(this.handshakeTimer);
    this.handshakeTimer = setTimeout(inVain, waitMs);
    this.handshakeTimer.unref();
  }

  private noteReady(): void {
    clearTimeout(this.handshakeTimer);
    this.pace.noteSuccess();
    this.lastFailure = undefined;
    for (const listener of this.readyListeners) listener();
  }

  private noteLoss(error: Error): void {
    clearTimeout(this.handshakeTimer);
    this.lastFailure = error;
    for (const listener of this.lostListeners) listener(error);
  }

  private connectedClient(): OpenedClient {
    if (this.client?.isReady() === true) return this.client;
    throw this.lastFailure ?? new Error('there is no connection');
  }
}

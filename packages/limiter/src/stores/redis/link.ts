import { joinHostPort } from '../../host-port.ts';
import { adaptClient, type SendCommand, type SendKeyed } from './client.ts';
import { findClientPackage, type ClientPackage } from './client-package.ts';
import { openClient, type OpenedClient } from './opened-client.ts';
import type { ServerAddress } from './server-address.ts';

/** A connection to one server, or to whatever an application's own client connects to. */
export interface Link {
  readonly name: string;
  readonly send: SendKeyed;
  /** Says `ASKING` and then the command, right after each other on the wire: a cluster's node accepts only that. */
  readonly sendAsking: SendCommand;
  readonly isReady: () => boolean;
  /** Why there is no connection, where that is known. */
  readonly connectionError: () => Error | undefined;
  /** Calls back each time that the connection can be used, or can be used again. */
  readonly onReady: (listener: () => void) => void;
  /** Calls back each time that the connection is lost, and each time that an attempt to get another one fails. */
  readonly onLost: (listener: (error: Error) => void) => void;
  /** Gives the connection up for a new one, at most once a second; does nothing where the application holds it. */
  readonly renew: (reason: Error) => void;
  readonly close: () => Promise<void>;
}

const MIN_RENEWAL_INTERVAL_MS = 1000;
/** A server that is well has answered by then. */
const UNUSUAL_HANDSHAKE_MS = 100;

/** The application's own client: it is neither opened nor closed here. */
export function linkTo(client: unknown, name: string): Link {
  const { send, isReady, onReady, onLost, release } = adaptClient(client);
  return {
    name,
    send,
    sendAsking: (command, args) => send(args[0] ?? '', command, args),
    isReady,
    connectionError: () => undefined,
    onReady,
    onLost,
    renew: () => undefined,
    close: async () => release(),
  };
}

/**
 * Opens a connection with whichever client package the application has installed. Commands fail at once while there is no
 * connection (the failure policy answers), and nothing is ever sent twice; reconnecting goes on in the background.
 */
export function openLink(address: ServerAddress): Link {
  return new OpenedLink(address);
}

class OpenedLink implements Link {
  readonly name: string;
  private readonly address: ServerAddress;
  private readonly readyListeners: (() => void)[] = [];
  private readonly lostListeners: ((error: Error) => void)[] = [];
  /** Resolves when the first attempt to connect has ended: the first commands wait for it instead of failing. */
  private readonly opening: Promise<void>;
  private opened = false;
  private found: ClientPackage | undefined;
  private client: OpenedClient | undefined;
  private lastFailure: Error | undefined;
  private renewedAt = 0;
  private handshakeTimer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;

  constructor(address: ServerAddress) {
    this.name = joinHostPort(address);
    this.address = address;
    this.opening = this.open();
    // Every command meets the same rejection; a missing package must not end the process before the first one.
    this.opening.catch((error: unknown) => {
      if (error instanceof Error) this.lastFailure = error;
    });
  }

  readonly send = async (_key: string, command: string, args: readonly string[]): Promise<unknown> => {
    if (!this.opened) await this.opening;
    return this.explained(this.connectedClient().send(command, args));
  };

  readonly sendAsking = async (command: string, args: readonly string[]): Promise<unknown> => {
    if (!this.opened) await this.opening;
    const client = this.connectedClient();
    const asking = client.send('ASKING', []);
    const reply = client.send(command, args);
    // If the first fails, so does the second: one of them is enough to report.
    asking.catch(() => undefined);
    return this.explained(reply);
  };

  readonly isReady = (): boolean => this.client?.isReady() === true;

  readonly connectionError = (): Error | undefined => this.lastFailure;

  readonly onReady = (listener: () => void): void => {
    this.readyListeners.push(listener);
  };

  readonly onLost = (listener: (error: Error) => void): void => {
    this.lostListeners.push(listener);
  };

  readonly renew = (reason: Error): void => {
    if (Date.now() < this.renewedAt + MIN_RENEWAL_INTERVAL_MS) return;
    this.lastFailure = reason;
    this.replaceClient();
  };

  readonly close = async (): Promise<void> => {
    this.closed = true;
    clearTimeout(this.handshakeTimer);
    // Not before the package has been loaded: there is nothing to close yet, but soon will be.
    await findClientPackage(this.address.clientPackage).catch(() => undefined);
    this.client?.close();
  };

  private async open(): Promise<void> {
    this.found = await findClientPackage(this.address.clientPackage);
    const outcome = new Promise<void>((resolve) => {
      this.readyListeners.push(resolve);
      this.lostListeners.push(() => resolve());
    });
    this.client = this.connect(this.found);
    await outcome;
    this.opened = true;
  }

  private connect(found: ClientPackage): OpenedClient {
    const ifCurrent = (note: () => void): void => {
      if (this.client === client) note();
    };
    const client = openClient(found, this.address, {
      waiting: () => ifCurrent(() => this.noteWaiting()),
      ready: () => ifCurrent(() => this.noteReady()),
      lost: (error) => ifCurrent(() => this.noteLoss(error)),
    });
    return client;
  }

  private replaceClient(): void {
    const { found, client } = this;
    if (this.closed || found === undefined || client === undefined) return;
    this.renewedAt = Date.now();
    this.client = this.connect(found);
    client.close();
  }

  /** The system accepts connections for a server that stands still, and for some that are no longer there. */
  private noteWaiting(): void {
    const error = new Error('the server took the connection, but does not answer or is loading its data');
    const patienceMs = Math.max(this.address.connectTimeoutMs, MIN_RENEWAL_INTERVAL_MS);
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

  /** Why the connection broke says more than that a call broke with it. */
  private explained(reply: Promise<unknown>): Promise<unknown> {
    return reply.catch((error: unknown) => {
      throw this.isReady() ? error : (this.lastFailure ?? error);
    });
  }
}

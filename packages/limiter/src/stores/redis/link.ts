import { adaptClient, type SendCommand, type SendKeyed } from './client.ts';
import { exportedBy, findClientPackage, type ClientPackage, type PackageName } from './client-package.ts';
import { addressName, type ServerAddress } from './server-address.ts';

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
  readonly close: () => Promise<void>;
}

const FIRST_RECONNECT_MS = 50;
const LAST_RECONNECT_MS = 1000;

/** The application's own client: it is neither opened nor closed here. */
export function linkTo(client: unknown, name: string): Link {
  const { send, isReady, onReady } = adaptClient(client);
  return {
    name,
    send,
    sendAsking: (command, args) => send(args[0] ?? '', command, args),
    isReady,
    connectionError: () => undefined,
    onReady,
    close: async () => undefined,
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
  private readonly clientPackage: PackageName | undefined;
  private readonly opening: Promise<Opened>;
  private readonly listeners: (() => void)[] = [];
  /** The client before and after its first attempt to connect. */
  private pending: Opened | undefined;
  private opened: Opened | undefined;
  private lastFailure: Error | undefined;

  constructor(address: ServerAddress) {
    this.name = addressName(address);
    this.clientPackage = address.clientPackage;
    this.opening = this.open(address);
    // Every command meets the same rejection; a missing package must not end the process before the first one.
    this.opening.catch(() => undefined);
  }

  /** Resolves with the outcome of the first attempt, so that the first commands wait for it instead of failing. */
  private async open(address: ServerAddress): Promise<Opened> {
    const found = await findClientPackage(address.clientPackage);
    const open = found.family === 'ioredis' ? openIoredis : openNodeRedis;
    const opened = await new Promise<Opened>((resolve) => {
      this.pending = open(found, address, {
        ready: () => {
          this.lastFailure = undefined;
          if (this.pending !== undefined) resolve(this.pending);
          for (const listener of this.listeners) listener();
        },
        failed: (error) => {
          this.lastFailure = error;
          if (this.pending !== undefined) resolve(this.pending);
        },
      });
    });
    this.opened = opened;
    return opened;
  }

  readonly send = async (_key: string, command: string, args: readonly string[]): Promise<unknown> => {
    const { client } = this.opened ?? (await this.opening);
    return this.explained(client.send('', command, args));
  };

  readonly sendAsking = async (command: string, args: readonly string[]): Promise<unknown> => {
    const { client } = this.opened ?? (await this.opening);
    const asking = client.send('', 'ASKING', []);
    const reply = client.send('', command, args);
    // If the first fails, so does the second: one of them is enough to report.
    asking.catch(() => undefined);
    return this.explained(reply);
  };

  readonly isReady = (): boolean => this.opened?.client.isReady() === true;

  readonly connectionError = (): Error | undefined => this.lastFailure;

  readonly onReady = (listener: () => void): void => {
    this.listeners.push(listener);
  };

  readonly close = async (): Promise<void> => {
    // Not before the package has been loaded: there is nothing to close yet, but soon will be.
    await findClientPackage(this.clientPackage).catch(() => undefined);
    this.pending?.close();
  };

  /** A client without a connection says just that; why it has none is what an operator wants to read. */
  private async explained(reply: Promise<unknown>): Promise<unknown> {
    try {
      return await reply;
    } catch (error) {
      if (this.isReady()) throw error;
      throw this.lastFailure ?? new Error('there is no connection', { cause: error });
    }
  }
}

interface Opened {
  readonly client: ReturnType<typeof adaptClient>;
  readonly close: () => void;
}

interface Watch {
  readonly ready: () => void;
  readonly failed: (error: Error) => void;
}

/** What the store uses of an ioredis or iovalkey client it opened itself. */
interface IoredisClient {
  connect(): Promise<unknown>;
  disconnect(): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

function openIoredis(found: ClientPackage, address: ServerAddress, watch: Watch): Opened {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what the package documents
  const Redis = exportedBy(found, ['Redis', 'default']) as new (options: object) => IoredisClient;
  const client = new Redis({
    host: address.host,
    port: address.port,
    username: address.username,
    password: address.password,
    db: address.database,
    tls: address.tls,
    lazyConnect: true,
    connectTimeout: address.connectTimeoutMs,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    retryStrategy: reconnectDelayMs,
  });
  client.on('error', watch.failed);
  const adapted = adaptClient(client);
  adapted.onReady(watch.ready);
  client.connect().catch(watch.failed);
  return { client: adapted, close: () => client.disconnect() };
}

/** What the store uses of a node-redis client it opened itself. */
interface NodeRedisClient {
  connect(): Promise<unknown>;
  destroy(): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

function openNodeRedis(found: ClientPackage, address: ServerAddress, watch: Watch): Opened {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what the package documents
  const createClient = exportedBy(found, ['createClient']) as (options: object) => NodeRedisClient;
  const client = createClient({
    username: address.username,
    password: address.password,
    database: address.database,
    disableOfflineQueue: true,
    socket: {
      host: address.host,
      port: address.port,
      connectTimeout: address.connectTimeoutMs,
      reconnectStrategy: reconnectDelayMs,
      ...(address.tls === undefined ? {} : { ...address.tls, tls: true }),
    },
  });
  client.on('error', watch.failed);
  const adapted = adaptClient(client);
  adapted.onReady(watch.ready);
  client.connect().catch(watch.failed);
  return { client: adapted, close: () => client.destroy() };
}

/** Exponential with full jitter, so that a fleet does not come back to a restarted server all at once. */
function reconnectDelayMs(attempts: number): number {
  return FIRST_RECONNECT_MS + Math.random() * Math.min(LAST_RECONNECT_MS, FIRST_RECONNECT_MS * 2 ** attempts);
}

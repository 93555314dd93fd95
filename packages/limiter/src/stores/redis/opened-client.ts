import { adaptClient, type SendCommand } from './client.ts';
import { exportedBy, type ClientPackage } from './client-package.ts';
import type { ServerAddress } from './server-address.ts';

/** A client that the store has opened itself. It reconnects for ever, and sends nothing without a connection. */
export interface OpenedClient {
  readonly send: SendCommand;
  readonly isReady: () => boolean;
  readonly close: () => void;
}

export interface ConnectionWatch {
  /** The server has accepted a connection, and now has to say that it is ready. */
  readonly waiting: () => void;
  readonly ready: () => void;
  readonly lost: (error: Error) => void;
}

const FIRST_RECONNECT_MS = 50;
const LAST_RECONNECT_MS = 1000;
/** A server that does not say goodbye is left without. */
const DISCONNECT_TIMEOUT_MS = 100;
/** How often a server that loads its data is asked whether it is done. */
const LOADING_POLL_MS = 250;

export function openClient(
  found: ClientPackage,
  address: ServerAddress,
  watch: ConnectionWatch,
): OpenedClient {
  return found.family === 'ioredis'
    ? openIoredis(found, address, watch)
    : openNodeRedis(found, address, watch);
}

/** What the store uses of an ioredis or iovalkey client it opened itself. */
interface IoredisClient {
  /** A list is copied once; arguments one by one are, several times. */
  call(command: string, args: readonly string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  on(event: 'connect' | 'ready' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

function openIoredis(found: ClientPackage, address: ServerAddress, watch: ConnectionWatch): OpenedClient {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what the package documents
  const Redis = exportedBy(found, ['Redis', 'default']) as new (options: object) => IoredisClient;
  let attempts = 0;
  const client = new Redis({
    host: address.host,
    port: address.port,
    username: address.username,
    password: address.password,
    db: address.database,
    tls: address.tls,
    lazyConnect: true,
    connectTimeout: address.connectTimeoutMs,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    maxLoadingRetryTime: LOADING_POLL_MS,
    // The answer to its introduction is what ioredis does not read, and the first answer may be why it is turned away.
    disableClientInfo: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    retryStrategy: () => reconnectDelayMs((attempts += 1)),
  });
  let failure: Error | undefined;
  // A database that cannot be selected is an error event for ioredis, and then it goes on in database 0.
  let misplaced = false;
  client.on('connect', () => {
    failure = undefined;
    misplaced = false;
    watch.waiting();
  });
  client.on('error', (error) => {
    failure = error;
    misplaced ||= isFailedSelect(error);
  });
  client.on('ready', () => {
    if (misplaced) return client.disconnect(true);
    attempts = 0;
    watch.ready();
  });
  client.on('close', () => watch.lost(failure ?? new Error('the server closed the connection')));
  // The events tell the same, and why.
  client.connect().catch(() => undefined);
  const { isReady } = adaptClient(client);
  return {
    send: (command, args) =>
      client.call(command, args).catch((error: unknown) => {
        throw isUnwritable(error) ? new Error('the connection has just been lost', { cause: error }) : error;
      }),
    isReady: () => isReady() && !misplaced,
    close: () => client.disconnect(),
  };
}

function isFailedSelect(error: Error): boolean {
  const command: unknown = 'command' in error ? error.command : undefined;
  return typeof command === 'object' && command !== null && 'name' in command && command.name === 'select';
}

/** For a moment ioredis calls a connection ready that is about to close, and blames a setting of ours. */
function isUnwritable(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Stream isn't writeable");
}

/** What the store uses of a node-redis client it opened itself. */
interface NodeRedisClient {
  readonly isOpen: boolean;
  connect(): Promise<unknown>;
  destroy(): void;
  on(event: 'connect' | 'ready', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

function openNodeRedis(found: ClientPackage, address: ServerAddress, watch: ConnectionWatch): OpenedClient {
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
  client.on('connect', watch.waiting);
  client.on('ready', watch.ready);
  client.on('error', watch.lost);
  // The events tell the same, and why.
  client.connect().catch(() => undefined);
  const { send, isReady } = adaptClient(client);
  return {
    send: (command, args) => send('', command, args),
    isReady,
    close: () => {
      if (client.isOpen) client.destroy();
    },
  };
}

/** Exponential with full jitter, so that a fleet does not come back to a restarted server all at once. */
function reconnectDelayMs(attempts: number): number {
  return FIRST_RECONNECT_MS + Math.random() * Math.min(LAST_RECONNECT_MS, FIRST_RECONNECT_MS * 2 ** attempts);
}

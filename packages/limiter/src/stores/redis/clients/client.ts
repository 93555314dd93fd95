import { LimiterError } from '../../../errors.ts';
import type { ServerAddress } from '../server-address.ts';

/** ioredis and iovalkey, as far as the store uses them: a connection to one server, or a `Cluster`. */
export interface CallClient {
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** node-redis (`redis`, `@redis/client`), as far as the store uses it: `createClient()`. */
export interface SendCommandClient {
  sendCommand(args: string[]): Promise<unknown>;
}

/** node-redis, as far as the store uses it: `createCluster()`. */
export interface ClusterCommandClient {
  sendCommand(firstKey: string, isReadonly: boolean, args: string[]): Promise<unknown>;
  readonly masters: unknown;
}

/** node-redis, as far as the store uses it: `createSentinel()`. */
export interface SentinelCommandClient {
  sendCommand(isReadonly: boolean, args: string[]): Promise<unknown>;
  getMasterNode(): unknown;
}

/** A connected client of one of the common packages. The application opens and closes it. */
export type RedisClient = CallClient | SendCommandClient | ClusterCommandClient | SentinelCommandClient;

/** Packages with one interface: how to open a client of theirs, and how to use one that the application opened. */
export interface ClientFamily {
  readonly open: (module: object, address: ServerAddress, watch: ConnectionWatch) => OpenedClient;
  /** Undefined if the client is of another family. */
  readonly adapt: (client: object) => AdaptedClient | undefined;
}

/** A client that the store has opened itself. It reconnects forever, and sends nothing without a connection. */
export interface OpenedClient {
  /** Resolves with the reply, or rejects with the server's or the connection's error. */
  readonly execute: (name: string, args: readonly string[]) => Promise<unknown>;
  readonly isReady: () => boolean;
  readonly close: () => void;
}

export interface ConnectionWatch {
  /** The server has accepted a connection, and now has to say that it is ready. */
  readonly waiting: () => void;
  readonly ready: () => void;
  readonly lost: (error: Error) => void;
  /** How long to wait before the next attempt to connect. */
  readonly pauseMs: () => number;
}

/** What the store makes of an application's own client. */
export interface AdaptedClient {
  /** The key tells a cluster's client where to send it. */
  readonly execute: (key: string, name: string, args: readonly string[]) => Promise<unknown>;
  /** For a cluster: the address of the server that owns a slot, as far as the client knows. */
  readonly ownerOf: ((slot: number) => string | undefined) | undefined;
  readonly isReady: () => boolean;
  readonly onReady: (listener: () => void) => void;
  readonly onLost: (listener: (error: Error) => void) => void;
  /**
   * Gives up the connection to a server, named as by `ownerOf` in a cluster, for a new one; false where the package has
   * no way to.
   */
  readonly reconnect: (server: string) => boolean;
  /** With which options a client notices by itself that its connection leads nowhere. */
  readonly watchfulOptions: string;
  /** Stops listening: the client lives longer than the store. */
  readonly release: () => void;
}

/** A client that does not tell is taken to be ready: its commands show whether it is. */
export function isClientReady(client: object): boolean {
  if ('status' in client) return client.status === 'ready';
  return !('isReady' in client) || client.isReady !== false;
}

/** ioredis says `close`, node-redis says `reconnecting`. Its errors are for the application to hear. */
const LOSSES = ['close', 'reconnecting'] as const;

/** What both families tell in the same way about an application's client. */
export function watchClient(
  client: object,
): Pick<AdaptedClient, 'isReady' | 'onReady' | 'onLost' | 'release'> {
  const isReady = (): boolean => isClientReady(client);
  if (!isEmitter(client)) {
    return { isReady, onReady: () => undefined, onLost: () => undefined, release: () => undefined };
  }
  const releases: (() => void)[] = [];
  const listen = (event: ClientEvent, listener: () => void): void => {
    client.on(event, listener);
    releases.push(() => client.off(event, listener));
  };
  return {
    isReady,
    onReady: (listener) => listen('ready', listener),
    onLost: (listener) => {
      const lost = (): void => listener(new Error('the client has lost its connection'));
      for (const event of LOSSES) listen(event, lost);
    },
    release: () => {
      for (const release of releases.splice(0)) release();
    },
  };
}

type ClientEvent = 'ready' | (typeof LOSSES)[number];

interface ClientEmitter {
  on(event: ClientEvent, listener: () => void): unknown;
  off(event: ClientEvent, listener: () => void): unknown;
}

function isEmitter(client: object): client is ClientEmitter {
  return 'on' in client && typeof client.on === 'function' && 'off' in client;
}

/** What a cluster's client knows about a slot; both families keep it in `slots`. */
export function slotEntry(client: object, slot: number): unknown {
  const slots: unknown = 'slots' in client ? client.slots : undefined;
  return Array.isArray(slots) ? slots[slot] : undefined;
}

/** A foreign module, of which only running it shows more: the caller says what it expects of the export. */
export function exportedBy(module: object, names: readonly string[]): unknown {
  const value = names
    .map((name): unknown => Reflect.get(module, name))
    .find((candidate) => typeof candidate === 'function');
  if (value !== undefined) return value;
  throw new LimiterError(
    'CLIENT_MISSING',
    `The installed Redis client has no ${names[0] ?? 'export'}: update it.`,
  );
}

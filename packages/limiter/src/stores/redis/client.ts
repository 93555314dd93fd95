import { LimiterError, show } from '../../errors.ts';

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

/** Sends one command and resolves with its reply, or rejects with the server's or the connection's error. */
export type SendCommand = (command: string, args: readonly string[]) => Promise<unknown>;

/** The same, with a key that tells a cluster's client where to send it. */
export type SendKeyed = (key: string, command: string, args: readonly string[]) => Promise<unknown>;

/** What the store makes of an application's own client. */
export interface AdaptedClient {
  readonly send: SendKeyed;
  /** For a cluster: the address of the server that owns a slot, as far as the client knows. */
  readonly ownerOf: ((slot: number) => string | undefined) | undefined;
  readonly isReady: () => boolean;
  readonly onReady: (listener: () => void) => void;
  readonly onLost: (listener: (error: Error) => void) => void;
  /** Stops listening: the client lives longer than the store. */
  readonly release: () => void;
}

export function adaptClient(client: unknown): AdaptedClient {
  if (!isObject(client)) return refuse(client);
  const events = { isReady: () => isReady(client), ...listeningTo(client) };
  // ioredis also has a sendCommand, for command objects: ask for `call` first.
  if (isCallClient(client)) {
    return {
      ...events,
      send: (_key, command, args) => client.call(command, ...args),
      ownerOf:
        'isCluster' in client && client.isCluster === true ? (slot) => ioredisOwner(client, slot) : undefined,
    };
  }
  if (isClusterCommandClient(client)) {
    return {
      ...events,
      send: (key, command, args) => client.sendCommand(key, false, [command, ...args]),
      ownerOf: (slot) => nodeRedisOwner(client, slot),
    };
  }
  if (isSentinelCommandClient(client)) {
    return {
      ...events,
      send: (_key, command, args) => client.sendCommand(false, [command, ...args]),
      ownerOf: undefined,
    };
  }
  if (isSendCommandClient(client)) {
    return {
      ...events,
      send: (_key, command, args) => client.sendCommand([command, ...args]),
      ownerOf: undefined,
    };
  }
  return refuse(client);
}

function refuse(client: unknown): never {
  throw new LimiterError(
    'INVALID_OPTION',
    `client is ${show(client)}; expected a connected client of ioredis, iovalkey, redis or @redis/client.`,
  );
}

function isCallClient(client: object): client is CallClient {
  return 'call' in client && typeof client.call === 'function';
}

function isSendCommandClient(client: object): client is SendCommandClient {
  return 'sendCommand' in client && typeof client.sendCommand === 'function';
}

function isClusterCommandClient(client: object): client is ClusterCommandClient {
  return isSendCommandClient(client) && 'masters' in client;
}

function isSentinelCommandClient(client: object): client is SentinelCommandClient {
  return isSendCommandClient(client) && 'getMasterNode' in client;
}

/** A client that does not tell is taken to be ready: its commands show whether it is. */
function isReady(client: object): boolean {
  if ('status' in client) return client.status === 'ready';
  return !('isReady' in client) || client.isReady !== false;
}

/** ioredis says `close`, node-redis says `reconnecting`. Its errors are for the application to hear. */
const LOSSES = ['close', 'reconnecting'] as const;

function listeningTo(client: object): Pick<AdaptedClient, 'onReady' | 'onLost' | 'release'> {
  if (!isEmitter(client))
    return { onReady: () => undefined, onLost: () => undefined, release: () => undefined };
  const releases: (() => void)[] = [];
  const listen = (event: ClientEvent, listener: () => void): void => {
    client.on(event, listener);
    releases.push(() => client.off(event, listener));
  };
  return {
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

interface Emitter {
  on(event: ClientEvent, listener: () => void): unknown;
  off(event: ClientEvent, listener: () => void): unknown;
}

function isEmitter(client: object): client is Emitter {
  return 'on' in client && typeof client.on === 'function' && 'off' in client;
}

/** `slots[7]` of an ioredis cluster is `['10.0.0.1:6379', ...]`, its master first. */
function ioredisOwner(client: object, slot: number): string | undefined {
  const owner = firstOf(slotOf(client, slot));
  return typeof owner === 'string' ? owner : undefined;
}

/** `slots[7]` of a node-redis cluster is `{ master: { address: '10.0.0.1:6379' } }`. */
function nodeRedisOwner(client: object, slot: number): string | undefined {
  const entry = slotOf(client, slot);
  const master = isObject(entry) && 'master' in entry ? entry.master : undefined;
  return isObject(master) && 'address' in master && typeof master.address === 'string'
    ? master.address
    : undefined;
}

function slotOf(client: object, slot: number): unknown {
  const slots: unknown = 'slots' in client ? client.slots : undefined;
  return Array.isArray(slots) ? slots[slot] : undefined;
}

function firstOf(list: unknown): unknown {
  return Array.isArray(list) ? list[0] : undefined;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

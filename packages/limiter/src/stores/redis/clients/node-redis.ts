import type { ServerAddress } from '../server-address.ts';
import {
  exportedBy,
  isClientReady,
  slotEntry,
  watchClient,
  type AdaptedClient,
  type ClientFamily,
  type ClusterCommandClient,
  type ConnectionWatch,
  type OpenedClient,
  type SendCommandClient,
  type SentinelCommandClient,
} from './client.ts';

/** redis and @redis/client. */
export const NODE_REDIS: ClientFamily = { open, adapt };

/** What the store uses of a client it opened itself. */
interface NodeRedisClient extends SendCommandClient {
  readonly isOpen: boolean;
  connect(): Promise<unknown>;
  destroy(): void;
  on(event: 'connect' | 'ready' | 'reconnecting', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

function open(module: object, address: ServerAddress, watch: ConnectionWatch): OpenedClient {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what the package documents
  const createClient = exportedBy(module, ['createClient']) as (options: object) => NodeRedisClient;
  let closed = false;
  const client = createClient({
    username: address.username,
    password: address.password,
    database: address.database,
    disableOfflineQueue: true,
    socket: {
      host: address.host,
      port: address.port,
      connectTimeout: address.connectTimeoutMs,
      reconnectStrategy: () => (closed ? false : watch.pauseMs()),
      ...(address.tls === undefined ? {} : { ...address.tls, tls: true }),
    },
  });
  // A client that is destroyed while its socket is being opened forgets the socket, which then holds the process.
  let opening = true;
  client.on('reconnecting', () => {
    opening = true;
  });
  client.on('connect', () => {
    opening = false;
    if (closed) client.destroy();
    else watch.waiting();
  });
  client.on('ready', watch.ready);
  client.on('error', (error) => {
    opening = false;
    watch.lost(error);
  });
  // The events tell the same, and why.
  client.connect().catch(() => undefined);
  return {
    execute: (name, args) => client.sendCommand([name, ...args]),
    isReady: () => isClientReady(client),
    close: () => {
      closed = true;
      if (client.isOpen && !opening) client.destroy();
    },
  };
}

function adapt(client: object): AdaptedClient | undefined {
  if (isClusterCommandClient(client)) {
    return {
      ...watchClient(client),
      execute: (key, name, args) => client.sendCommand(key, false, [name, ...args]),
      ownerOf: (slot) => ownerOf(client, slot),
      reconnect: (server) => reconnect(nodeOf(client, server)),
      watchfulOptions: `\`defaults: { ${WATCHFUL} }\``,
    };
  }
  if (isSentinelCommandClient(client)) {
    return {
      ...watchClient(client),
      execute: (_key, name, args) => client.sendCommand(false, [name, ...args]),
      ownerOf: undefined,
      // Its connections are its own.
      reconnect: () => false,
      watchfulOptions: `\`nodeClientOptions: { ${WATCHFUL} }\``,
    };
  }
  if (!isSendCommandClient(client)) return undefined;
  return {
    ...watchClient(client),
    execute: (_key, name, args) => client.sendCommand([name, ...args]),
    ownerOf: undefined,
    reconnect: () => reconnect(client),
    watchfulOptions: `\`${WATCHFUL}\``,
  };
}

/**
 * A ping more often than the socket may be idle, else an idle connection would be closed again and again; and a
 * strategy, because by itself it does not connect again after such a timeout.
 */
const WATCHFUL = 'pingInterval: 400, socket: { socketTimeout: 1000, reconnectStrategy: () => 100 }';

/** What waits for an answer fails; the server will not give it any more. */
function reconnect(client: unknown): boolean {
  if (!isReconnectable(client)) return false;
  client.destroy();
  // Its events tell the application the same.
  client.connect().catch(() => undefined);
  return true;
}

function isReconnectable(client: unknown): client is Pick<NodeRedisClient, 'connect' | 'destroy'> {
  if (!isObject(client) || !('destroy' in client) || !('connect' in client)) return false;
  return typeof client.destroy === 'function' && typeof client.connect === 'function';
}

/** The connection of a cluster to one of its servers. */
function nodeOf(client: ClusterCommandClient, server: string): unknown {
  const masters: readonly unknown[] = Array.isArray(client.masters) ? client.masters : [];
  const master = masters.find((node) => isObject(node) && 'address' in node && node.address === server);
  return isObject(master) && 'client' in master ? master.client : undefined;
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

/** `slots[7]` of a cluster is `{ master: { address: '10.0.0.1:6379' } }`. */
function ownerOf(client: object, slot: number): string | undefined {
  const entry = slotEntry(client, slot);
  const master = isObject(entry) && 'master' in entry ? entry.master : undefined;
  return isObject(master) && 'address' in master && typeof master.address === 'string'
    ? master.address
    : undefined;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

import type { ServerAddress } from '../server-address.ts';
import {
  exportedBy,
  isClientReady,
  slotEntry,
  watchClient,
  type AdaptedClient,
  type CallClient,
  type ClientFamily,
  type ConnectionWatch,
  type OpenedClient,
} from './client.ts';

/** A server that does not say goodbye is left without. */
const DISCONNECT_TIMEOUT_MS = 100;
/** How often a server that loads its data is asked whether it is done. */
const LOADING_POLL_MS = 250;

/** ioredis and iovalkey. */
export const IOREDIS: ClientFamily = { open, adapt };

/** What the store uses of a client it opened itself. */
interface IoredisClient {
  /** A list is copied once; arguments one by one are, several times. */
  call(command: string, args: readonly string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  on(event: 'connect' | 'ready' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

function open(module: object, address: ServerAddress, watch: ConnectionWatch): OpenedClient {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what the package documents
  const Redis = exportedBy(module, ['Redis', 'default']) as new (options: object) => IoredisClient;
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
    retryStrategy: () => watch.pauseMs(),
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
    watch.ready();
  });
  client.on('close', () => watch.lost(failure ?? new Error('the server closed the connection')));
  // The events tell the same, and why.
  client.connect().catch(() => undefined);
  return {
    execute: (name, args) =>
      client.call(name, args).catch((error: unknown) => {
        throw isUnwritable(error) ? new Error('the connection has just been lost', { cause: error }) : error;
      }),
    isReady: () => !misplaced && isClientReady(client),
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

function adapt(client: object): AdaptedClient | undefined {
  if (!isCallClient(client)) return undefined;
  const isCluster = 'isCluster' in client && client.isCluster === true;
  return {
    ...watchClient(client),
    execute: (_key, name, args) => client.call(name, ...args),
    ownerOf: isCluster ? (slot) => ownerOf(client, slot) : undefined,
    reconnect: (server) => reconnect(isCluster ? nodeOf(client, server) : client),
    watchfulOptions: isCluster
      ? '`redisOptions: { socketTimeout: 1000 }`'
      : '`socketTimeout: 1000`, or some other time in ms',
  };
}

/** Its own `retryStrategy` says when; a cluster opens a node again that it needs. */
function reconnect(client: unknown): boolean {
  if (!canDisconnect(client)) return false;
  client.disconnect(true);
  return true;
}

function canDisconnect(client: unknown): client is Pick<IoredisClient, 'disconnect'> {
  return (
    typeof client === 'object' &&
    client !== null &&
    'disconnect' in client &&
    typeof client.disconnect === 'function'
  );
}

/** The connection of a cluster to one of its servers. */
function nodeOf(client: object, server: string): unknown {
  if (!hasNodes(client)) return undefined;
  return client.nodes('master').find(({ options: { host, port } }) => `${host}:${port}` === server);
}

interface IoredisCluster {
  nodes(role: 'master'): readonly { readonly options: { readonly host: string; readonly port: number } }[];
}

function hasNodes(client: object): client is IoredisCluster {
  return 'nodes' in client && typeof client.nodes === 'function';
}

function isCallClient(client: object): client is CallClient {
  return 'call' in client && typeof client.call === 'function';
}

/** `slots[7]` of a cluster is `['10.0.0.1:6379', ...]`, its master first. */
function ownerOf(client: object, slot: number): string | undefined {
  const entry = slotEntry(client, slot);
  const owner: unknown = Array.isArray(entry) ? entry[0] : undefined;
  return typeof owner === 'string' ? owner : undefined;
}

import { LimiterError, show } from '../../errors.ts';
import { toSendCommand, type SendCommand } from './client.ts';

/** Tried in this order; the first that is installed is used. */
const PACKAGES = ['ioredis', 'iovalkey', 'redis', '@redis/client'] as const;
type PackageName = (typeof PACKAGES)[number];

const FIRST_RECONNECT_MS = 50;
const LAST_RECONNECT_MS = 2000;

export interface Connection {
  readonly send: SendCommand;
  readonly close: () => Promise<void>;
}

/**
 * Opens a connection with whichever client package the application has installed. Commands fail at once while there is no
 * connection (the failure policy answers), and nothing is ever sent twice; reconnecting goes on in the background.
 */
export function connect(url: string, connectTimeoutMs: number): Connection {
  requireUrl(url);
  const opening = open(url, connectTimeoutMs);
  // Asked for again by every command; a missing package must not end the process before the first one.
  opening.catch(() => undefined);
  return {
    send: async (command, args) => (await opening).send(command, args),
    close: async () => {
      const opened = await opening.catch(() => undefined);
      await opened?.close();
    },
  };
}

function requireUrl(url: string): void {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed !== undefined && ['redis:', 'rediss:'].includes(parsed.protocol)) return;
  // A URL may carry a password: say what is wrong without repeating it.
  const shown = typeof url === 'string' ? show(url.replace(/\/\/.*@/s, '//***@')) : show(url);
  throw new LimiterError(
    'INVALID_OPTION',
    `url is ${shown}; expected redis://host:port or rediss://host:port, such as redis://localhost:6379.`,
  );
}

async function open(url: string, connectTimeoutMs: number): Promise<Connection> {
  for (const name of PACKAGES) {
    const module = await importIfInstalled(name);
    if (module === undefined) continue;
    return name === 'ioredis' || name === 'iovalkey'
      ? openIoredis(module, url, connectTimeoutMs)
      : openNodeRedis(module, url, connectTimeoutMs);
  }
  throw new LimiterError(
    'CLIENT_MISSING',
    `No Redis client is installed; the store can use one of ${PACKAGES.join(', ')}: run npm install ioredis.`,
  );
}

async function importIfInstalled(name: PackageName): Promise<object | undefined> {
  try {
    const module: unknown = await import(name);
    return typeof module === 'object' && module !== null ? module : undefined;
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND';
    if (missing && error.message.includes(`'${name}'`)) return undefined;
    throw error;
  }
}

/** What the store uses of an ioredis or iovalkey client it opened itself. */
interface OpenedIoredis {
  call(command: string, ...args: string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  disconnect(): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

async function openIoredis(module: object, url: string, connectTimeoutMs: number): Promise<Connection> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what the package documents
  const Redis = exported(module, ['Redis', 'default']) as new (url: string, options: object) => OpenedIoredis;
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: connectTimeoutMs,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    retryStrategy: reconnectDelayMs,
  });
  // The commands carry the errors; an event without a listener would end the process.
  client.on('error', () => undefined);
  await client.connect().catch(() => undefined);
  return {
    send: toSendCommand(client),
    close: async () => client.disconnect(),
  };
}

/** What the store uses of a node-redis client it opened itself. */
interface OpenedNodeRedis {
  sendCommand(args: string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  destroy(): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

async function openNodeRedis(module: object, url: string, connectTimeoutMs: number): Promise<Connection> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what the package documents
  const createClient = exported(module, ['createClient']) as (options: object) => OpenedNodeRedis;
  const client = createClient({
    url,
    disableOfflineQueue: true,
    socket: { connectTimeout: connectTimeoutMs, reconnectStrategy: reconnectDelayMs },
  });
  client.on('error', () => undefined);
  // It keeps trying on its own: wait for the first attempt only as long as a connection may take.
  const patience = new Promise((resolve) => setTimeout(resolve, connectTimeoutMs).unref());
  await Promise.race([client.connect().catch(() => undefined), patience]);
  return {
    send: toSendCommand(client),
    close: async () => client.destroy(),
  };
}

/** A foreign module, of which only running it shows more: the caller says what it expects of the export. */
function exported(module: object, names: readonly string[]): unknown {
  const found = names
    .map((name): unknown => Reflect.get(module, name))
    .find((value) => typeof value === 'function');
  if (found !== undefined) return found;
  throw new LimiterError(
    'CLIENT_MISSING',
    `The installed Redis client has no ${names[0] ?? 'export'}: update it.`,
  );
}

/** Exponential with full jitter, so that a fleet does not come back to a restarted server all at once. */
function reconnectDelayMs(attempts: number): number {
  return FIRST_RECONNECT_MS + Math.random() * Math.min(LAST_RECONNECT_MS, FIRST_RECONNECT_MS * 2 ** attempts);
}

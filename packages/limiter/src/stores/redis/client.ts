import { LimiterError, show } from '../../errors.ts';

/** ioredis and iovalkey, as far as the store uses them. */
export interface CallClient {
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** node-redis (`redis`, `@redis/client`), as far as the store uses it. */
export interface SendCommandClient {
  sendCommand(args: string[]): Promise<unknown>;
}

/** A connected client of one of the common packages. The application opens and closes it. */
export type RedisClient = CallClient | SendCommandClient;

/** Sends one command and resolves with its reply, or rejects with the server's or the connection's error. */
export type SendCommand = (command: string, args: readonly string[]) => Promise<unknown>;

export function toSendCommand(client: unknown): SendCommand {
  // ioredis also has a sendCommand, for command objects: ask for `call` first.
  if (isCallClient(client)) return (command, args) => client.call(command, ...args);
  if (isSendCommandClient(client)) return (command, args) => client.sendCommand([command, ...args]);
  throw new LimiterError(
    'INVALID_OPTION',
    `client is ${show(client)}; expected a connected client of ioredis, iovalkey, redis or @redis/client.`,
  );
}

function isCallClient(client: unknown): client is CallClient {
  return isObject(client) && 'call' in client && typeof client.call === 'function';
}

function isSendCommandClient(client: unknown): client is SendCommandClient {
  return isObject(client) && 'sendCommand' in client && typeof client.sendCommand === 'function';
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

import { connect as connectPlain, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import { type Argument, encodeCommand, parseReply, type Reply, ReplyError } from './resp.ts';

export interface ConnectOptions {
  /** A Unix socket, or a port of 127.0.0.1. */
  readonly to: { readonly path: string } | { readonly port: number };
  readonly username?: string;
  readonly password?: string;
  readonly tls?: ConnectionOptions;
  /** The most that connecting, and then each reply, may take. Default: 5 s. */
  readonly deadlineMs?: number;
}

interface Waiting {
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

const DEADLINE_MS = 5000;

/** One connection to one server: no retries, no redirections, so that a test sees exactly what the server does. */
export class RespConnection {
  readonly #socket: Socket;
  readonly #deadlineMs: number;
  #waiting: Waiting[] = [];
  #received: Buffer = Buffer.alloc(0);

  private constructor(socket: Socket, deadlineMs: number) {
    this.#socket = socket;
    this.#deadlineMs = deadlineMs;
    socket.on('data', (chunk: Buffer) => {
      this.#read(chunk);
    });
    socket.on('error', (error) => {
      this.#fail(error);
    });
    socket.on('close', () => {
      this.#fail(new Error('The server closed the connection'));
    });
  }

  static async open(options: ConnectOptions): Promise<RespConnection> {
    const { deadlineMs = DEADLINE_MS, username = 'default', password } = options;
    const connection = new RespConnection(await openSocket(options, deadlineMs), deadlineMs);
    try {
      if (password !== undefined) await connection.command('AUTH', username, password);
    } catch (error) {
      connection.close();
      throw error;
    }
    return connection;
  }

  /** Rejects with a {@link ReplyError} when the server answers one. Errors inside an array stay in the array. */
  async command(...args: readonly Argument[]): Promise<Reply> {
    if (this.#socket.destroyed) throw new Error('The connection is closed');
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#fail(new Error(`No reply to ${String(args[0])} within ${this.#deadlineMs} ms`));
      }, this.#deadlineMs);
      this.#waiting.push({ resolve, reject, timer });
      this.#socket.write(encodeCommand(args));
    });
  }

  close(): void {
    this.#fail(new Error('The connection was closed before the reply came'));
  }

  #read(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk]);
    for (;;) {
      const parsed = parseReply(this.#received);
      if (parsed === undefined) return;
      this.#received = this.#received.subarray(parsed.end);
      this.#answer(parsed.reply);
    }
  }

  #answer(reply: Reply): void {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) return;
    clearTimeout(waiting.timer);
    if (reply instanceof ReplyError) waiting.reject(reply);
    else waiting.resolve(reply);
  }

  #fail(error: Error): void {
    this.#socket.destroy();
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { reject, timer } of waiting) {
      clearTimeout(timer);
      reject(error);
    }
  }
}

async function openSocket({ to, tls }: ConnectOptions, deadlineMs: number): Promise<Socket> {
  const address = 'path' in to ? to : { host: '127.0.0.1', port: to.port };
  return new Promise((resolve, reject) => {
    const socket =
      tls === undefined ? connectPlain(address) : connectTls({ ...address, servername: 'localhost', ...tls });
    const timer = setTimeout(() => {
      socket.destroy(new Error(`No connection to ${JSON.stringify(to)} within ${deadlineMs} ms`));
    }, deadlineMs);
    socket.once(tls === undefined ? 'connect' : 'secureConnect', () => {
      clearTimeout(timer);
      resolve(socket);
    });
    socket.once('error', (error: Error) => {
      clearTimeout(timer);
      reject(error);
    });
  });
}

import type { Socket } from 'node:net';
import { errors } from 'undici';
import { errorOf } from '../upstream-error.ts';
import type { ExchangeHolder, Http1Exchange } from './exchange.ts';
import { receiveFrom } from './receive.ts';
import { RequestWriter, writeBodyless } from './request-writer.ts';
import type { ResponseHead } from './response-head.ts';
import { ResponseParser, type ResponseListener } from './response-parser.ts';

/** Who owns a connection. */
export interface ConnectionOwner {
  /** The response was whole and clean: another request may follow. */
  released(connection: Http1Connection): void;
  /** Once: it is not used again. */
  lost(connection: Http1Connection): void;
}

/** How much earlier than the server would we end an unused connection: a request needs time to get there. */
const KEEP_ALIVE_MARGIN_MS = 2000;

/** One connection to a server, with one request at a time. */
export class Http1Connection implements ResponseListener, ExchangeHolder {
  /** What the server says about how long it keeps an unused connection. */
  serverIdleMs = Infinity;
  /** When it has been unused for too long, on the clock of `performance`. */
  idleUntilMs = 0;
  private readonly socket: Socket;
  private readonly owner: ConnectionOwner;
  private readonly parser = new ResponseParser(this);
  private exchange: Http1Exchange | undefined;
  private writer: RequestWriter | undefined;
  private timer: NodeJS.Timeout | undefined;
  private keepAlive = true;
  private keepAliveHint: string | undefined;
  private responded = false;
  private paused = false;
  private dead = false;

  constructor(socket: Socket, owner: ConnectionOwner) {
    this.socket = socket;
    this.owner = owner;
    receiveFrom(socket, (bytes, length) => this.receive(bytes, length));
    socket
      .on('drain', () => this.writer?.drained())
      .on('end', () => this.serverEnded())
      .on('error', (error) => this.broken(error))
      .on('close', () => this.broken(new errors.SocketError('The upstream closed the connection.')));
  }

  /** Sends a request. */
  run(exchange: Http1Exchange): void {
    const { request, head } = exchange;
    this.exchange = exchange;
    this.responded = false;
    this.keepAlive = head.keepAlive;
    exchange.heldBy(this);
    this.parser.expect(request.method);
    if (request.headersTimeoutMs > 0) this.watch(request.headersTimeoutMs);
    if (request.body === undefined) {
      writeBodyless(this.socket, head);
      return;
    }
    this.writer = new RequestWriter(this.socket, head, request.body, (error) => this.broken(error));
    this.writer.start();
  }

  abort(exchange: Http1Exchange, reason: Error): void {
    if (exchange === this.exchange) this.broken(reason);
  }

  resume(exchange: Http1Exchange): void {
    if (exchange !== this.exchange || !this.paused) return;
    this.paused = false;
    this.timer?.refresh();
    this.socket.resume();
  }

  /** Ends it; a request that is on it fails. */
  destroy(error: Error): void {
    this.broken(error);
  }

  head({ status, headers, keepAlive, keepAliveHint }: ResponseHead): void {
    const { exchange } = this;
    if (exchange === undefined) return;
    if (status >= 200) {
      this.responded = true;
      this.keepAlive &&= keepAlive;
      if (keepAliveHint !== this.keepAliveHint) this.learnIdleTime(keepAliveHint);
      this.stopWatching();
    }
    if (!exchange.respond(status, headers)) this.paused = true;
  }

  data(chunk: Buffer): void {
    if (this.exchange?.receive(chunk) === false) this.paused = true;
  }

  complete(trailers: readonly string[], clean: boolean): void {
    const { exchange, writer } = this;
    if (exchange === undefined) return;
    this.exchange = undefined;
    this.paused = false;
    this.stopWatching();
    // A server that answers before it has read everything may take the rest of the body for a request.
    const written = writer === undefined || (writer.done && this.socket.writableLength === 0);
    writer?.stop();
    this.writer = undefined;
    if (clean && written && this.keepAlive) this.owner.released(this);
    else this.end();
    exchange.complete(trailers);
  }

  private receive(bytes: Buffer, length: number): boolean {
    if (this.dead) return false;
    if (this.exchange === undefined) {
      // Nobody asked: whatever it is, the next request must not get it.
      this.end();
      return false;
    }
    try {
      this.parser.read(bytes, length);
    } catch (failure) {
      // What came before it is on its way to the client, and gets there only now.
      if (this.responded) setImmediate(() => this.broken(errorOf(failure)));
      else this.broken(errorOf(failure));
      return false;
    }
    this.watchBody();
    return !this.paused;
  }

  private serverEnded(): void {
    if (!this.parser.endsWithConnection) {
      this.broken(new errors.SocketError('The upstream closed the connection.'));
      return;
    }
    try {
      this.parser.end();
    } catch (failure) {
      this.broken(errorOf(failure));
    }
  }

  private learnIdleTime(hint: string | undefined): void {
    this.keepAliveHint = hint;
    const seconds = hint === undefined ? undefined : /\btimeout=(\d{1,9})/i.exec(hint)?.[1];
    this.serverIdleMs = seconds === undefined ? Infinity : Number(seconds) * 1000 - KEEP_ALIVE_MARGIN_MS;
  }

  /** Most answers arrive whole at once, and need no clock. */
  private watchBody(): void {
    if (this.exchange === undefined || !this.responded) return;
    if (this.timer !== undefined) this.timer.refresh();
    else if (this.exchange.request.bodyTimeoutMs > 0) this.watch(this.exchange.request.bodyTimeoutMs);
  }

  private watch(timeoutMs: number): void {
    this.timer = setTimeout(() => this.silent(timeoutMs), timeoutMs);
  }

  private stopWatching(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private silent(timeoutMs: number): void {
    // A client that does not read is no silence of the server.
    if (this.paused) {
      this.timer?.refresh();
      return;
    }
    const message = `The upstream was silent for ${timeoutMs} ms.`;
    this.broken(
      this.responded ? new errors.BodyTimeoutError(message) : new errors.HeadersTimeoutError(message),
    );
  }

  private broken(error: Error): void {
    if (this.dead) return;
    const { exchange, writer } = this;
    this.exchange = undefined;
    this.writer = undefined;
    this.stopWatching();
    writer?.stop();
    this.end();
    exchange?.fail(error);
  }

  private end(): void {
    if (this.dead) return;
    this.dead = true;
    this.socket.destroy();
    this.owner.lost(this);
  }
}

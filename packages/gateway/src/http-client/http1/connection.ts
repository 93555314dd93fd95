import type { OnReadOpts, Socket } from 'node:net';
import {
  errorOf,
  HttpClientError,
  type OutgoingRequest,
  type RequestControl,
  type ResponseHandler,
} from '../request.ts';
import type { ResponseHead } from './response-head.ts';
import { ResponseParser, type ResponseListener } from './response-parser.ts';
import { RequestWriter, writeBodyless, type OutgoingHead } from './write-request.ts';

/** Who owns a connection. */
export interface ConnectionOwner {
  /** The response was whole and clean: another request may follow. */
  released(connection: Http1ClientConnection): void;
  /** Once: it is not used again. */
  lost(connection: Http1ClientConnection): void;
  /** A request that was sent then, on a connection that had worked before, ended without a byte of an answer. */
  unanswered(sentAtMs: number): void;
}

/** What holds a request at the moment: the queue, or a connection. */
export interface CallHolder {
  abort(call: Http1Call, reason: Error): void;
  resume(call: Http1Call): void;
}

/** The queue that a request comes from. */
export interface CallOwner extends CallHolder {
  /** Once, before the handler hears of the end. */
  ended(call: Http1Call, wasRunning: boolean): void;
}

/** One request and what becomes of it. */
export class Http1Call implements RequestControl {
  readonly request: OutgoingRequest;
  readonly head: OutgoingHead;
  private readonly handler: ResponseHandler;
  private readonly owner: CallOwner;
  private holder: CallHolder | undefined;

  constructor(request: OutgoingRequest, head: OutgoingHead, handler: ResponseHandler, owner: CallOwner) {
    this.request = request;
    this.head = head;
    this.handler = handler;
    this.owner = owner;
  }

  /** It has left the queue. */
  get isRunning(): boolean {
    return this.holder !== undefined && this.holder !== this.owner;
  }

  heldBy(holder: CallHolder): void {
    this.holder = holder;
  }

  abort(reason: Error): void {
    this.holder?.abort(this, reason);
  }

  resume(): void {
    this.holder?.resume(this);
  }

  begin(): void {
    this.handler.onConnect(this);
  }

  respond(status: number, headers: readonly string[]): boolean {
    return this.handler.onHeaders(status, headers);
  }

  receive(chunk: Buffer): boolean {
    return this.handler.onData(chunk);
  }

  complete(trailers: readonly string[]): void {
    const wasRunning = this.isRunning;
    this.holder = undefined;
    this.owner.ended(this, wasRunning);
    this.handler.onComplete(trailers);
  }

  fail(error: Error): void {
    if (this.holder === undefined) return;
    const wasRunning = this.isRunning;
    this.holder = undefined;
    this.owner.ended(this, wasRunning);
    this.handler.onError(error);
  }
}

/** What a socket does with bytes: false stops reading until `socket.resume()`. */
type Receive = (bytes: Buffer, length: number) => boolean;

const RECEIVED_BYTES = 65_536;

/**
 * All connections read into one buffer: a receiver copies what it keeps before it returns. Otherwise Node.js allocates
 * 64 KiB for every read, and responses are small.
 */
const received = Buffer.allocUnsafeSlow(RECEIVED_BYTES);
const receivers = new WeakMap<Socket, Receive>();

/** For `createConnector`: connections for HTTP/1.1 are opened with it. */
export const READ_INTO_ONE_BUFFER: OnReadOpts = {
  buffer: received,
  callback(this: Socket, length) {
    const receive = receivers.get(this);
    if (receive !== undefined) return receive(received, length);
    // Bytes that no request asked for.
    this.destroy();
    return false;
  },
};

/** How much earlier than the server would we end an unused connection: a request needs time to get there. */
const KEEP_ALIVE_MARGIN_MS = 2000;

/** One connection to a server, with one request at a time. */
export class Http1ClientConnection implements ResponseListener, CallHolder {
  /** What the server says about how long it keeps an unused connection. */
  serverIdleMs = Infinity;
  /** Since when it is unused, and when that is too long, on the clock of `performance`. */
  idleSinceMs = 0;
  idleUntilMs = 0;
  private readonly socket: Socket;
  private readonly owner: ConnectionOwner;
  private readonly parser = new ResponseParser(this);
  private call: Http1Call | undefined;
  private writer: RequestWriter | undefined;
  private timer: NodeJS.Timeout | undefined;
  private keepAlive = true;
  private keepAliveHint: string | undefined;
  private sentAtMs = 0;
  private reused = false;
  /** Something came for the request that is under way. */
  private heard = false;
  private responded = false;
  private paused = false;
  private dead = false;

  constructor(socket: Socket, owner: ConnectionOwner) {
    this.socket = socket;
    this.owner = owner;
    receivers.set(socket, (bytes, length) => this.receive(bytes, length));
    socket
      .on('drain', () => this.writer?.drained())
      .on('end', () => this.serverEnded())
      .on('error', (error) => this.broken(error))
      .on('close', () => this.broken(closedByServer()));
  }

  /** Sends a request. */
  run(call: Http1Call): void {
    const { request, head } = call;
    this.call = call;
    this.reused = this.sentAtMs > 0;
    this.sentAtMs = performance.now();
    this.heard = false;
    this.responded = false;
    this.keepAlive = head.keepAlive;
    call.heldBy(this);
    this.parser.expect(head);
    if (request.headersTimeoutMs > 0) this.watch(request.headersTimeoutMs);
    if (request.body === undefined) {
      writeBodyless(this.socket, head);
      return;
    }
    this.writer = new RequestWriter(this.socket, head, request.body, (error) => this.broken(error));
    this.writer.start();
  }

  abort(call: Http1Call, reason: Error): void {
    if (call === this.call) this.broken(reason);
  }

  resume(call: Http1Call): void {
    if (call !== this.call || !this.paused) return;
    this.paused = false;
    this.timer?.refresh();
    this.socket.resume();
  }

  /** Ends it; a request that is on it fails. */
  destroy(error: Error): void {
    this.broken(error);
  }

  head({ status, headers, keepAlive, keepAliveHint }: ResponseHead): void {
    const { call } = this;
    if (call === undefined) return;
    if (status >= 200) {
      this.responded = true;
      this.keepAlive &&= keepAlive;
      if (keepAliveHint !== this.keepAliveHint) this.learnIdleTime(keepAliveHint);
      this.stopWatching();
    }
    if (!call.respond(status, headers)) this.paused = true;
  }

  data(chunk: Buffer): void {
    if (this.call?.receive(chunk) === false) this.paused = true;
  }

  complete(trailers: readonly string[], clean: boolean): void {
    const { call, writer } = this;
    if (call === undefined) return;
    this.call = undefined;
    this.paused = false;
    this.stopWatching();
    // A server that answers before it has read everything may take the rest of the body for a request.
    const written = writer === undefined || (writer.done && this.socket.writableLength === 0);
    writer?.stop();
    this.writer = undefined;
    if (clean && written && this.keepAlive) this.owner.released(this);
    else this.end();
    call.complete(trailers);
  }

  upgraded(): void {
    // The parser refuses a 101 here.
  }

  private receive(bytes: Buffer, length: number): boolean {
    if (this.dead) return false;
    if (this.call === undefined) {
      // Nobody asked: whatever it is, the next request must not get it.
      this.end();
      return false;
    }
    this.heard = true;
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
      this.broken(closedByServer());
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
    if (this.call === undefined || !this.responded) return;
    if (this.timer !== undefined) this.timer.refresh();
    else if (this.call.request.bodyTimeoutMs > 0) this.watch(this.call.request.bodyTimeoutMs);
  }

  private watch(timeoutMs: number): void {
    this.timer = setTimeout(() => this.silent(timeoutMs), timeoutMs);
  }

  private stopWatching(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private silent(timeoutMs: number): void {
    // A client that does not read does not make the server silent.
    if (this.paused) {
      this.timer?.refresh();
      return;
    }
    const code = this.responded ? 'BODY_TIMEOUT' : 'HEADERS_TIMEOUT';
    this.broken(new HttpClientError(code, `The server was silent for ${timeoutMs} ms.`));
  }

  private broken(error: Error): void {
    if (this.dead) return;
    const { call, writer } = this;
    this.call = undefined;
    this.writer = undefined;
    this.stopWatching();
    writer?.stop();
    this.end();
    if (call !== undefined && this.reused && !this.heard) this.owner.unanswered(this.sentAtMs);
    call?.fail(error);
  }

  private end(): void {
    if (this.dead) return;
    this.dead = true;
    this.socket.destroy();
    this.owner.lost(this);
  }
}

function closedByServer(): HttpClientError {
  return new HttpClientError('CONNECTION_LOST', 'The server closed the connection.');
}

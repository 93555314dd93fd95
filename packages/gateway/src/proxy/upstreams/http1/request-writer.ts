import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { UpstreamError } from '../upstream-error.ts';
import type { RequestHead } from './request-head.ts';

const EMPTY_LINE = '\r\n';
const LAST_CHUNK = '0\r\n\r\n';

/** A request without a body goes out in one piece. */
export function writeBodyless(socket: Socket, { text, expectsBody }: RequestHead): void {
  socket.write(expectsBody ? `${text}content-length: 0\r\n\r\n` : text + EMPTY_LINE, 'latin1');
}

/**
 * Sends a body as fast as the server takes it, the head together with the first bytes. `failed` hears why it could not be sent to its end;
 * then the server must not take what it has for the whole.
 */
export class RequestWriter {
  private readonly socket: Socket;
  private readonly head: RequestHead;
  private readonly body: Readable;
  private readonly failed: (error: Error) => void;
  private begun = false;
  private sent = 0;
  private over = false;

  constructor(socket: Socket, head: RequestHead, body: Readable, failed: (error: Error) => void) {
    this.socket = socket;
    this.head = head;
    this.body = body;
    this.failed = failed;
  }

  /** All of the request has been written, or nothing more of it will be. */
  get done(): boolean {
    return this.over;
  }

  start(): void {
    if (this.body.destroyed) {
      this.fail(this.body.errored ?? brokenOff());
      return;
    }
    this.body.on('data', this.take).once('end', this.finish).once('close', this.close).on('error', this.fail);
  }

  /** The server took what was written. */
  drained(): void {
    if (!this.over) this.body.resume();
  }

  /** Nobody is interested in the rest of the body any more. */
  stop(): void {
    if (this.over) return;
    this.over = true;
    this.body.off('data', this.take).off('end', this.finish).off('close', this.close);
    this.body.destroy();
  }

  private readonly take = (chunk: Buffer): void => {
    if (chunk.length === 0) return;
    const { bodyLength } = this.head;
    this.sent += chunk.length;
    if (bodyLength !== undefined && this.sent > bodyLength) {
      this.fail(lengthMismatch(bodyLength));
      return;
    }
    const { socket } = this;
    socket.cork();
    if (!this.begun) this.begin();
    if (bodyLength === undefined) socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1');
    socket.write(chunk);
    if (bodyLength === undefined) socket.write(EMPTY_LINE, 'latin1');
    socket.uncork();
    if (socket.writableNeedDrain) this.body.pause();
  };

  private begin(): void {
    const { text, bodyLength } = this.head;
    this.begun = true;
    const framing = bodyLength === undefined ? 'transfer-encoding: chunked' : `content-length: ${bodyLength}`;
    this.socket.write(`${text}${framing}\r\n\r\n`, 'latin1');
  }

  private readonly finish = (): void => {
    if (this.over) return;
    const { bodyLength } = this.head;
    if (bodyLength !== undefined && this.sent !== bodyLength) {
      this.fail(lengthMismatch(bodyLength));
      return;
    }
    this.over = true;
    if (!this.begun) writeBodyless(this.socket, this.head);
    else if (bodyLength === undefined) this.socket.write(LAST_CHUNK, 'latin1');
  };

  private readonly close = (): void => {
    this.fail(brokenOff());
  };

  private readonly fail = (error: Error): void => {
    if (this.over) return;
    this.stop();
    this.failed(error);
  };
}

function brokenOff(): Error {
  return new Error('The body of the request broke off.');
}

function lengthMismatch(length: number): UpstreamError {
  return new UpstreamError(
    'BAD_REQUEST',
    `The body of the request does not have the ${length} bytes it announced.`,
  );
}

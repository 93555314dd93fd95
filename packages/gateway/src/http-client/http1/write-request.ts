// Requests as HTTP/1.1. Whatever is asked for, nothing is written that a server could take for more than one request.
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { HttpClientError, type OutgoingRequest } from '../request.ts';
import type { AskedFor } from './response-head.ts';

/** The head of a request but for what frames its body and the empty line. */
export interface OutgoingHead extends AskedFor {
  readonly text: string;
  /** As the client announced it; undefined if it did not. */
  readonly bodyLength: number | undefined;
  /** A method for which a body is expected: then a server is told when there is none (RFC 9110 §8.6). */
  readonly expectsBody: boolean;
  /** The connection takes another request after this one. */
  readonly keepAlive: boolean;
}

const METHOD = /^[!#$%&'*+\-.^_`|~\dA-Za-z]+$/;
const PATH = /^\/[!-~\x80-\xff]*$/;
const NAME = METHOD;
/** No control character but the tab, and nothing that is more than a byte: half of it could be a line feed. */
const VALUE = /^[\t -~\x80-\xff]*$/;
const LENGTH = /^\d{1,15}$/;

const EXPECT_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH', 'QUERY', 'PROPFIND', 'PROPPATCH']);

/** They belong to this connection, whose owner writes them. */
const OWN: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
  'expect',
]);

/** `host`: where the request itself names none. Throws if a part of the request cannot be written. */
export function requestHead({ method, path, headers, body }: OutgoingRequest, host: string): OutgoingHead {
  if (!METHOD.test(method) || method === 'CONNECT') throw unsendable('method', method);
  if (!PATH.test(path) && !(path === '*' && method === 'OPTIONS')) throw unsendable('path', path);
  const expectsBody = EXPECT_BODY.has(method);
  // A server may answer HEAD with a body, or leave one unread that it did not expect: then the next answer would be the
  // wrong one.
  const keepAlive = method !== 'HEAD' && (body === undefined || expectsBody);
  let lines = keepAlive ? 'connection: keep-alive\r\n' : 'connection: close\r\n';
  let namedHost: string | undefined;
  let bodyLength: number | undefined;
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? '';
    const value = headers[at + 1] ?? '';
    if (!NAME.test(name)) throw unsendable('header name', name);
    if (!VALUE.test(value)) throw unsendable(`value of ${name}`, value);
    const special = specialName(name);
    if (special === undefined) lines += `${name}: ${value}\r\n`;
    else if (special === 'host' && namedHost === undefined) namedHost = value;
    else if (special === 'content-length' && bodyLength === undefined) bodyLength = lengthOf(value);
    else throw unsendable('header', name);
  }
  return {
    method,
    mayUpgrade: false,
    text: `${method} ${path} HTTP/1.1\r\nhost: ${namedHost ?? host}\r\n${lines}`,
    bodyLength,
    expectsBody,
    keepAlive,
  };
}

const SHORTEST = 'host'.length;
const LONGEST = 'transfer-encoding'.length;

function specialName(name: string): string | undefined {
  if (name.length < SHORTEST || name.length > LONGEST) return undefined;
  const lower = name.toLowerCase();
  return lower === 'host' || lower === 'content-length' || OWN.has(lower) ? lower : undefined;
}

function lengthOf(value: string): number {
  if (!LENGTH.test(value)) throw unsendable('Content-Length', value);
  return Number(value);
}

function unsendable(what: string, value: string): HttpClientError {
  return new HttpClientError('BAD_REQUEST', `The ${what} ${JSON.stringify(value)} cannot be sent.`);
}

const EMPTY_LINE = '\r\n';
const LAST_CHUNK = '0\r\n\r\n';

/** A request without a body goes out in one piece. */
export function writeBodyless(socket: Socket, { text, expectsBody }: OutgoingHead): void {
  socket.write(expectsBody ? `${text}content-length: 0\r\n\r\n` : text + EMPTY_LINE, 'latin1');
}

/**
 * Sends a body as fast as the server takes it, the head together with the first bytes. `failed` hears why it could not
 * be sent to its end; then the server must not take what it has for the whole.
 */
export class RequestWriter {
  private readonly socket: Socket;
  private readonly head: OutgoingHead;
  private readonly body: Readable;
  private readonly failed: (error: Error) => void;
  private begun = false;
  private sent = 0;
  private over = false;

  constructor(socket: Socket, head: OutgoingHead, body: Readable, failed: (error: Error) => void) {
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

function lengthMismatch(length: number): HttpClientError {
  return new HttpClientError(
    'BAD_REQUEST',
    `The body of the request does not have the ${length} bytes it announced.`,
  );
}

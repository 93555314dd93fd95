// The seam between the engines that speak HTTP with clients and everything behind them.
import type { Readable } from 'node:stream';
import type { ClientCertificate } from '../identity/identity.ts';

/** What the first bytes of a request say, in every version of HTTP. */
export interface RequestHead {
  readonly protocol: 'HTTP/1.0' | 'HTTP/1.1' | 'HTTP/2.0';
  readonly method: string;
  readonly scheme: 'http' | 'https';
  /** The target of the request line, or `:path`, as it was sent. */
  readonly target: string;
  /** HTTP/2's `:authority`. */
  readonly authority: string | undefined;
  /** Names and values by turns; pseudo-headers are not among them. */
  readonly rawHeaders: readonly string[];
  /** The address at the other end of the connection. */
  readonly peer: string | undefined;
  /** No body follows. */
  readonly bodyless: boolean;
  /** What the client showed in the TLS handshake. Left out: nothing. */
  readonly certificate?: (() => ClientCertificate | undefined) | undefined;
}

/** What the owner of an exchange hears. */
export interface ExchangeListener {
  /** After `write` answered false: the client took what it was sent. */
  drained(): void;
  /** After `end`: bytes still wait for the client; `closed` comes when it took them. */
  stalled(): void;
  /** The last call: the response went out whole, or the client or we cut it off. */
  closed(complete: boolean): void;
}

export interface ResponseOptions {
  /** The connection is not used again. */
  readonly close: boolean;
  /** Trailers may follow the body. */
  readonly trailers: boolean;
}

/** One request of a client and its response. */
export interface Exchange extends RequestHead {
  /** The bytes of the body; nobody reads them before they are wanted. */
  readonly body: Readable;
  listen(listener: ExchangeListener): void;
  /** `100 Continue`. */
  sendContinue(): void;
  /** Another 1xx; names and values by turns, as in all headers here. */
  inform(status: number, headers: readonly string[]): void;
  /** The head of a response whose body follows. */
  respond(status: number, headers: string[], options: ResponseOptions): void;
  /** What is there goes out at the end of this turn, also if the body has not begun. */
  flush(): void;
  /** False: the client is slow; go on when `drained` is called. */
  write(chunk: Buffer): boolean;
  /** Grows with every byte that leaves for the client. */
  takenBytes(): number;
  end(trailers?: readonly string[]): void;
  /** A whole response. */
  answer(status: number, headers: string[], body: string, options: ResponseOptions): void;
  /** Nobody could serve this request. False: the client has sent too many of them and is cut off, without an answer. */
  toleratesMalformed(): boolean;
  /** Cuts the response off, so that the client cannot take it for whole. */
  destroy(): void;
}

/** Nobody has read the body to its end: the connection cannot be used again. */
export function leavesBody({ bodyless, body }: Exchange): boolean {
  return !bodyless && !body.readableEnded;
}

/** A response that has something to send. */
export interface BatchedWriter {
  /** Never throws. */
  depart(): void;
}

/** The first of them must not wait for the work of hundreds. */
const MAX_TOGETHER = 32;

let waiting: BatchedWriter[] = [];

/**
 * Sends at the end of this turn of the event loop, when all that arrived together has been read. Every write that finds
 * its reader asleep has to wake it, which costs more than the write; of many in a row only the first does. Nobody waits
 * longer for it: a turn with nothing else to do ends at once.
 */
export function writeTogether(one: BatchedWriter): void {
  waiting.push(one);
  if (waiting.length === 1) setImmediate(departAll);
  else if (waiting.length >= MAX_TOGETHER) departAll();
}

function departAll(): void {
  const leaving = waiting;
  waiting = [];
  for (const one of leaving) one.depart();
}

// Heads of HTTP/1.1 responses, read strictly: anything two readers could understand differently is refused (RFC 9112
// §§4 to 6).
import { HttpClientError } from '../request.ts';

/** How the end of a body is found. */
export type Framing = 'none' | 'length' | 'chunked' | 'close';

export interface ResponseHead {
  readonly status: number;
  /** Names and values by turns, as they were sent. */
  readonly headers: readonly string[];
  readonly framing: Framing;
  /** Of the body; 0 where its length is not known. */
  readonly length: number;
  /** The server will read another request after this one. */
  readonly keepAlive: boolean;
  /** `Keep-Alive`, where the server says for how long. */
  readonly keepAliveHint: string | undefined;
}

export const MAX_HEAD_BYTES = 16_384;
const MAX_HEADER_LINES = 500;

const FIELD_LINES = "(?:[!#$%&'*+\\-.^_`|~\\dA-Za-z]+:[\\t -~\\x80-\\xff]*\\r\\n)*";
const HEAD = new RegExp(`^HTTP/1\\.[01] [1-9]\\d\\d(?: [\\t -~\\x80-\\xff]*)?\\r\\n${FIELD_LINES}$`);
const TRAILERS = new RegExp(`^${FIELD_LINES}$`);
const FRAMING_LINE = /^(?:content-length|transfer-encoding):/im;
/** RFC 9110 allows tabs around every value; some readers refuse them here, and others may stop at them. */
const TAB_IN_FRAMING = /^(?:content-length|transfer-encoding):.*\t/im;
const LENGTH = /^\d{1,15}$/;
const STATUS_AT = 9;
const VERSION_AT = 7;
const DIGIT_ZERO = 0x30;

/** What is known of the request. */
export interface AskedFor {
  readonly method: string;
  /** It asked for another protocol: 101 is the answer to that. */
  readonly mayUpgrade: boolean;
}

/** `text`: the status line and the header lines, each with its end, without the empty line. */
export function parseHead(text: string, asked: AskedFor): ResponseHead {
  if (!HEAD.test(text)) throw badResponse('its head is not one of HTTP/1');
  if (text.includes('\t') && TAB_IN_FRAMING.test(text))
    throw badResponse('it has a tab in Content-Length or Transfer-Encoding');
  const framing = new FramingFields();
  const headers: string[] = [];
  readLines(text, text.indexOf('\r\n') + 2, headers, framing);
  return framing.headOf(digitsAt(text, STATUS_AT), headers, {
    asked,
    oldVersion: text.charCodeAt(VERSION_AT) === DIGIT_ZERO,
  });
}

/** Names and values by turns. `text`: the lines, each with its end. */
export function parseTrailers(text: string): readonly string[] {
  if (!TRAILERS.test(text)) throw badResponse('its trailers are malformed');
  if (FRAMING_LINE.test(text)) throw badResponse('its trailers say anew where its body ends');
  const trailers: string[] = [];
  readLines(text, 0, trailers, undefined);
  return trailers;
}

export function badResponse(why: string): HttpClientError {
  return new HttpClientError('BAD_RESPONSE', `The server's response is refused: ${why}.`);
}

function readLines(text: string, start: number, headers: string[], framing: FramingFields | undefined): void {
  for (let at = start; at < text.length;) {
    const colon = text.indexOf(':', at);
    const end = text.indexOf('\r\n', colon);
    const name = text.slice(at, colon);
    const value = trimmed(text, colon + 1, end);
    headers.push(name, value);
    framing?.see(name, value);
    at = end + 2;
  }
  if (headers.length > 2 * MAX_HEADER_LINES)
    throw badResponse(`it has more than ${MAX_HEADER_LINES} header lines`);
}

function trimmed(text: string, start: number, end: number): string {
  let from = start;
  let to = end;
  while (from < to && isBlank(text.charCodeAt(from))) from += 1;
  while (to > from && isBlank(text.charCodeAt(to - 1))) to -= 1;
  return text.slice(from, to);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

function digitsAt(text: string, at: number): number {
  return (
    (text.charCodeAt(at) - DIGIT_ZERO) * 100 +
    (text.charCodeAt(at + 1) - DIGIT_ZERO) * 10 +
    (text.charCodeAt(at + 2) - DIGIT_ZERO)
  );
}

interface HeadContext {
  readonly asked: AskedFor;
  readonly oldVersion: boolean;
}

/** The few fields that say where a response ends and what becomes of the connection. */
class FramingFields {
  private contentLength: string | undefined;
  private transferEncoding: string | undefined;
  private connection: string | undefined;
  private keepAliveHint: string | undefined;

  see(name: string, value: string): void {
    // Their lengths tell most other names apart without making another string.
    if (name.length === 14) this.seeContentLength(name, value);
    else if (name.length === 17) this.seeTransferEncoding(name, value);
    else if (name.length === 10) this.seeConnection(name, value);
  }

  headOf(status: number, headers: readonly string[], { asked, oldVersion }: HeadContext): ResponseHead {
    const { contentLength, transferEncoding, keepAliveHint } = this;
    if (status === 101 && !asked.mayUpgrade) {
      throw badResponse('it changes the protocol, and nobody asked for that');
    }
    this.refuseAmbiguity(status, oldVersion);
    const bodyless = status < 200 || status === 204 || status === 304 || asked.method === 'HEAD';
    const framing = bodyless ? 'none' : framingOf(contentLength, transferEncoding);
    // Where no body can be, some servers send the end of one; nobody waits for it there.
    const strayEnd = status === 204 && transferEncoding !== undefined;
    return {
      status,
      headers,
      framing,
      length: framing === 'length' ? Number(contentLength) : 0,
      keepAlive: framing !== 'close' && !strayEnd && this.persists(oldVersion),
      keepAliveHint,
    };
  }

  private seeContentLength(name: string, value: string): void {
    if (name.toLowerCase() !== 'content-length') return;
    if (this.contentLength !== undefined) throw badResponse('it has two Content-Length lines');
    if (!LENGTH.test(value)) throw badResponse('its Content-Length is not a number');
    this.contentLength = value;
  }

  private seeTransferEncoding(name: string, value: string): void {
    if (name.toLowerCase() !== 'transfer-encoding') return;
    if (this.transferEncoding !== undefined) throw badResponse('it has two Transfer-Encoding lines');
    if (value.toLowerCase() !== 'chunked') throw badResponse('its Transfer-Encoding is not "chunked"');
    this.transferEncoding = value;
  }

  private seeConnection(name: string, value: string): void {
    const lower = name.toLowerCase();
    if (lower === 'keep-alive') this.keepAliveHint = value;
    else if (lower === 'connection') {
      this.connection = this.connection === undefined ? value : `${this.connection},${value}`;
    }
  }

  private refuseAmbiguity(status: number, oldVersion: boolean): void {
    const { contentLength, transferEncoding } = this;
    if (transferEncoding !== undefined) {
      if (contentLength !== undefined) throw badResponse('it has Content-Length and Transfer-Encoding');
      if (oldVersion) throw badResponse('it has Transfer-Encoding, which HTTP/1.0 does not know');
    }
    const announcesBody = transferEncoding !== undefined || contentLength !== undefined;
    if (status < 200 && oldVersion) throw badResponse(`it is a ${status}, which HTTP/1.0 does not know`);
    if (status < 200 && announcesBody) throw badResponse(`a ${status} has no body`);
    if (status === 204 && Number(contentLength ?? 0) > 0) throw badResponse('a 204 has no body');
  }

  private persists(oldVersion: boolean): boolean {
    const { connection } = this;
    if (connection === undefined) return !oldVersion;
    if (connection === 'keep-alive') return true;
    const options = connection.toLowerCase().split(',');
    if (options.some((option) => option.trim() === 'close')) return false;
    return !oldVersion || options.some((option) => option.trim() === 'keep-alive');
  }
}

function framingOf(contentLength: string | undefined, transferEncoding: string | undefined): Framing {
  if (transferEncoding !== undefined) return 'chunked';
  return contentLength === undefined ? 'close' : 'length';
}

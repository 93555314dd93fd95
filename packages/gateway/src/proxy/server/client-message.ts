import { IncomingMessage, type IncomingHttpHeaders } from 'node:http';

/** All that Node.js and the front look up by name before a request is read: how it goes on, and where it ends. */
const LOOKED_UP: ReadonlySet<string> = new Set([
  'te',
  'expect',
  'upgrade',
  'content-length',
  'transfer-encoding',
]);
const LENGTHS: ReadonlySet<number> = new Set(Array.from(LOOKED_UP, (name) => name.length));
const NO_FIELDS: IncomingHttpHeaders = Object.freeze({});

/**
 * Hears of every piece of a body where it arrives: who reads the body may come late, and until then each of them is
 * kept.
 */
export interface PieceListener {
  /** False: the connection is about to end, and nothing more is kept. */
  pieceArrived(bytes: number): boolean;
}

/**
 * A request that asks for another protocol only if that is a WebSocket. Node.js stops reading HTTP on a connection that
 * asks for any upgrade; clients that offer `Upgrade: h2c` would hang, and what follows their headers would be taken for
 * something else (RFC 9110 §7.8 lets us ignore the offer).
 *
 * Its `headers` has the few fields of `LOOKED_UP` and no other: Node.js asks it for `Expect` each time, and would make
 * an object of all of them, which nobody reads here. `rawHeaders` has them all.
 */
export class ClientMessage extends IncomingMessage {
  /** Also of protocols that are not spoken here. */
  upgradeAsked = false;
  pieces: PieceListener | undefined = undefined;
  private fields: IncomingHttpHeaders | undefined = undefined;

  static {
    // Node.js has an accessor there too, which its declarations call a property.
    Object.defineProperty(this.prototype, 'headers', {
      get(this: ClientMessage) {
        this.fields ??= lookedUp(this.rawHeaders);
        return this.fields;
      },
    });
  }

  /** Where there is no body, nobody waits for its end, and ending a stream takes longer than reading the headers. */
  override push(chunk: unknown, encoding?: BufferEncoding): boolean {
    if (chunk === null && isBodyless(this)) return false;
    if (this.pieces?.pieceArrived(Buffer.isBuffer(chunk) ? chunk.length : 0) === false) return false;
    return super.push(chunk, encoding);
  }

  get upgrade(): boolean {
    return (
      this.upgradeAsked && (this.method === 'CONNECT' || this.headers.upgrade?.toLowerCase() === 'websocket')
    );
  }

  set upgrade(asked: boolean | null) {
    this.upgradeAsked = asked === true;
  }
}

/** Nothing follows its headers. */
export function isBodyless({ headers }: IncomingMessage): boolean {
  const length = headers['content-length'];
  return (length === undefined || length === '0') && headers['transfer-encoding'] === undefined;
}

/** Several lines of a name are one list, as with Node.js. */
function lookedUp(raw: readonly string[]): IncomingHttpHeaders {
  let fields: Record<string, string> | undefined;
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at] ?? '';
    if (!LENGTHS.has(name.length)) continue;
    const lower = name.toLowerCase();
    if (!LOOKED_UP.has(lower)) continue;
    const value = raw[at + 1] ?? '';
    const before = fields?.[lower];
    fields ??= {};
    fields[lower] = before === undefined ? value : `${before}, ${value}`;
  }
  return fields ?? NO_FIELDS;
}

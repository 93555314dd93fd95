import { lookup as systemLookup, type LookupAddress } from 'node:dns';
import { connect as connectTcp, isIP, type LookupFunction, type OnReadOpts, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { HttpClientError } from './request.ts';

/** What TLS connections are opened with. */
export type ClientTls = Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized'>;

/** All addresses of a name. */
export type ResolveAll = (
  host: string,
  callback: (failure: Error | null, addresses: readonly LookupAddress[]) => void,
) => void;

export interface ConnectorOptions {
  readonly tls: ClientTls;
  /** Until the connection may be used: name lookup, TCP and TLS together. */
  readonly timeoutMs: number;
  /** Offers HTTP/2 in the TLS handshake. */
  readonly http2: boolean;
  /** Which addresses must not be dialled. Left out: none. */
  readonly refusesAddress?: ((address: string) => boolean) | undefined;
  /** Left out: the system's resolver. */
  readonly resolve?: ResolveAll | undefined;
  /** Reading may end before writing does: tunnels need that, HTTP does not. */
  readonly halfOpen?: boolean | undefined;
  /** Gets the bytes instead of the socket's readers. */
  readonly onread?: OnReadOpts | undefined;
}

export interface Target {
  readonly secure: boolean;
  /** As `Host` names it. */
  readonly host: string;
  /** Without brackets. */
  readonly hostname: string;
  readonly port: number;
}

export function targetOf(origin: string): Target {
  const { protocol, hostname, host, port } = new URL(origin);
  const secure = protocol === 'https:';
  const defaultPort = secure ? 443 : 80;
  return {
    secure,
    host,
    hostname: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? defaultPort : Number(port),
  };
}

/** Opens a connection that is ready to use, or rejects. */
export type Connector = () => Promise<Socket>;

const KEEP_ALIVE_MS = 60_000;
const BUFFERED_BYTES = 65_536;

/**
 * Opens connections to one server. The name that TLS verifies is fixed here: what a request asks for does not change
 * it.
 *
 * With `refusesAddress`, the address that was checked is the address that is dialled: names are looked up once, inside
 * the call that connects, and addresses written out, for which no lookup is made, are checked before it.
 */
export function createConnector(target: Target, options: ConnectorOptions): Connector {
  const { refusesAddress = () => false } = options;
  const { hostname } = target;
  const open = target.secure ? secureOpener(target, options) : plainOpener(target, options);
  return async () => {
    if (isIP(hostname) !== 0 && refusesAddress(hostname)) throw forbidden(hostname, hostname);
    const socket = await ready(open(), target, options.timeoutMs);
    // It cannot be another address than was checked; this is for the day when a change of Node.js makes it one.
    const { remoteAddress } = socket;
    if (options.refusesAddress === undefined) return socket;
    if (remoteAddress !== undefined && !refusesAddress(remoteAddress)) return socket;
    socket.destroy();
    throw forbidden(hostname, String(remoteAddress));
  };
}

type Opener = () => { readonly socket: Socket; readonly readyEvent: 'connect' | 'secureConnect' };

function plainOpener(target: Target, options: ConnectorOptions): Opener {
  const settings = socketSettings(target, options);
  return () => ({ socket: connectTcp(settings), readyEvent: 'connect' });
}

/** A session of an earlier connection saves the server most of the handshake. */
function secureOpener(target: Target, options: ConnectorOptions): Opener {
  const { tls, http2 } = options;
  const servername = tls.servername ?? (isIP(target.hostname) === 0 ? target.hostname : undefined);
  const settings = {
    ...socketSettings(target, options),
    ...tls,
    ...(servername === undefined ? {} : { servername }),
    ALPNProtocols: http2 ? ['http/1.1', 'h2'] : ['http/1.1'],
  };
  let session: Buffer | undefined;
  return () => {
    const socket: TLSSocket = connectTls(session === undefined ? settings : { ...settings, session });
    socket.on('session', (latest) => {
      session = latest;
    });
    return { socket, readyEvent: 'secureConnect' };
  };
}

function socketSettings({ hostname, port }: Target, options: ConnectorOptions) {
  const { refusesAddress, resolve, halfOpen = false, onread } = options;
  const guarded = refusesAddress !== undefined || resolve !== undefined;
  return {
    host: hostname,
    port,
    allowHalfOpen: halfOpen,
    highWaterMark: BUFFERED_BYTES,
    ...(guarded ? { lookup: checkedLookup(refusesAddress, resolve) } : {}),
    ...(onread === undefined ? {} : { onread }),
  };
}

/** The listener for errors stays: between two owners, an error without one would end the process. */
async function ready(
  { socket, readyEvent }: ReturnType<Opener>,
  { hostname, port }: Target,
  timeoutMs: number,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      const message = `no connection to ${hostname}:${port} within ${timeoutMs} ms`;
      socket.destroy(new HttpClientError('CONNECT_TIMEOUT', message));
    }, timeoutMs);
    socket
      .setNoDelay(true)
      .setKeepAlive(true, KEEP_ALIVE_MS)
      .once(readyEvent, () => {
        clearTimeout(timer);
        resolve(socket);
      })
      .on('error', reject)
      .once('close', () => {
        clearTimeout(timer);
        reject(new HttpClientError('CONNECTION_LOST', `${hostname}:${port} closed the connection`));
      });
  });
}

function checkedLookup(
  refusesAddress: ConnectorOptions['refusesAddress'] = () => false,
  resolve: ResolveAll = resolveBySystem,
): LookupFunction {
  return (host, options, callback) => {
    resolve(host, (failure, addresses) => {
      if (failure !== null) {
        callback(failure, '');
        return;
      }
      // One bad address spoils them all: who controls the name decides which of them is tried first.
      const bad = addresses.find(({ address }) => refusesAddress(address));
      const [first] = addresses;
      if (bad !== undefined || first === undefined) {
        callback(forbidden(host, bad?.address ?? 'no address'), '');
        return;
      }
      if (options.all === true) callback(null, [...addresses]);
      else callback(null, first.address, first.family);
    });
  };
}

const resolveBySystem: ResolveAll = (host, callback) => {
  systemLookup(host, { all: true }, callback);
};

function forbidden(host: string, address: string): HttpClientError {
  return new HttpClientError('ADDRESS_FORBIDDEN', `${host} leads to ${address}, which must not be dialled`);
}

import { LimiterError, show } from '../../errors.ts';

/** What Node's `tls.connect()` takes, as far as a Redis connection needs it. */
export interface TlsOptions {
  /** The certificate authority that signed the server's certificate, in PEM. Default: the well-known ones. */
  readonly ca?: string | Uint8Array | readonly (string | Uint8Array)[] | undefined;
  /** The client's own certificate and key, in PEM, where the server asks for one. */
  readonly cert?: string | Uint8Array | undefined;
  readonly key?: string | Uint8Array | undefined;
  /** The name the server's certificate has to carry (SNI). Default: the host of the address. */
  readonly servername?: string | undefined;
  /** `false` accepts any certificate: for development only. */
  readonly rejectUnauthorized?: boolean | undefined;
}

/** How to reach one server and who we are there. */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly database: number;
  readonly tls: TlsOptions | undefined;
  readonly connectTimeoutMs: number;
  /** Which client package opens it; undefined for whichever is installed. */
  readonly clientPackage: string | undefined;
}

/** What holds for all servers of a store; a URL of its own goes first. */
export type AddressDefaults = Omit<ServerAddress, 'host' | 'port'>;

const DEFAULT_PORT = 6379;
const MAX_DATABASE = 65_535;

/** Reads `redis://user:password@host:port/database`, or `rediss://` for TLS. */
export function parseAddress(option: string, url: unknown, defaults: AddressDefaults): ServerAddress {
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || !['redis:', 'rediss:'].includes(parsed.protocol) || parsed.hostname === '') {
    return refuseUrl(option, url);
  }
  const path = parsed.pathname.replace(/^\//, '');
  const database = path === '' ? defaults.database : Number(/^\d{1,5}$/.exec(path)?.[0] ?? Number.NaN);
  if (!(database <= MAX_DATABASE)) return refuseUrl(option, url);
  return {
    // A URL has an IPv6 address in brackets, a socket wants it without.
    host: parsed.hostname.replaceAll(/^\[|\]$/g, ''),
    port: parsed.port === '' ? DEFAULT_PORT : Number(parsed.port),
    username: decoded(parsed.username) ?? defaults.username,
    password: decoded(parsed.password) ?? defaults.password,
    database,
    tls: parsed.protocol === 'rediss:' ? (defaults.tls ?? {}) : defaults.tls,
    connectTimeoutMs: defaults.connectTimeoutMs,
    clientPackage: defaults.clientPackage,
  };
}

function decoded(part: string): string | undefined {
  if (part === '') return undefined;
  try {
    return decodeURIComponent(part);
  } catch {
    // A lone percent sign: the owner meant it literally.
    return part;
  }
}

function refuseUrl(option: string, url: unknown): never {
  // A URL may carry a password: say what is wrong without repeating it.
  const shown = typeof url === 'string' ? show(url.replace(/\/\/.*@/s, '//***@')) : show(url);
  throw new LimiterError(
    'INVALID_OPTION',
    `${option} is ${shown}; expected redis://host:port or rediss://host:port, such as redis://localhost:6379, with /0 to /${MAX_DATABASE} for another database.`,
  );
}

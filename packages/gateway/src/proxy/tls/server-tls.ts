import { constants, type X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type TlsOptions, type TLSSocket, createSecureContext } from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../../config/config.ts';
import { type Path, pathText } from '../../config/path.ts';
import { certificateOfPair, certificatesIn, type PemFile } from '../../config/pem-files.ts';
import { readNamedFile, unreadableFile, SettingError } from '../../config/problem.ts';
import type { ClientCertificate } from '../../identity/identity.ts';
import { type Log, ThrottledWarning } from '../../telemetry/log.ts';

interface ServerTlsOptions {
  readonly log: Log;
  /** The section that names the files. Default: `server.tls`. */
  readonly section?: Path | undefined;
  /** How often the files are looked at. Default: 5 s. */
  readonly pollMs?: number;
  /** Left out: the system's clock. */
  readonly now?: () => Date;
}

/** Certificates that change while they are served. */
export interface ServerTls {
  /** For a server that starts now; what is newer comes by `onChange`. */
  readonly options: TlsOptions;
  /**
   * Calls the listener with everything `server.setSecureContext` needs: connections that are open go on. Answers how to
   * stop that.
   */
  onChange(listener: (options: TlsOptions) => void): () => void;
  /** Looks at the files now. Never rejects. */
  refresh(): Promise<void>;
  /** Stops looking. */
  close(): void;
}

/** Reads the files that the configuration names; throws a `SettingError` if they cannot be served. */
export function loadServerTls(settings: TlsSettings, options: ServerTlsOptions): ServerTls {
  const { section = SERVER_TLS } = options;
  const texts = Object.fromEntries(
    tlsFiles(settings).map(({ file, path }) => [file, readNamedFile([...section, file], path)]),
  );
  return new WatchedTls(settings, texts, options);
}

const SERVER_TLS: Path = ['server', 'tls'];
const POLL_MS = 5000;

class WatchedTls implements ServerTls {
  private readonly settings: TlsSettings;
  private readonly section: Path;
  private readonly log: Log;
  private readonly now: () => Date;
  private readonly listeners = new Set<(options: TlsOptions) => void>();
  private readonly timer: NodeJS.Timeout;
  private texts: TlsTexts;
  private material: KeyMaterial;
  /** The last complaint, so that the same one is not logged with every look. */
  private lastProblem: string | undefined;

  constructor(
    settings: TlsSettings,
    texts: TlsTexts,
    { log, section = SERVER_TLS, pollMs = POLL_MS, now = () => new Date() }: ServerTlsOptions,
  ) {
    this.settings = settings;
    this.section = section;
    this.log = log;
    this.now = now;
    this.texts = texts;
    this.material = keyMaterial(settings, texts, section);
    this.report('certificate loaded');
    // Contents are compared, not times of change or events: that sees renamed files and Kubernetes' swapped links
    // alike.
    this.timer = setInterval(() => void this.refresh(), pollMs).unref();
  }

  get options(): TlsOptions {
    return this.material.options;
  }

  onChange(listener: (options: TlsOptions) => void): () => void {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }

  async refresh(): Promise<void> {
    try {
      const texts = await readAll(this.settings, this.section);
      if (isDeepStrictEqual(texts, this.texts)) {
        this.lastProblem = undefined;
        return;
      }
      this.material = keyMaterial(this.settings, texts, this.section);
      this.texts = texts;
    } catch (failure) {
      this.keepOld(failure);
      return;
    }
    this.lastProblem = undefined;
    this.report('certificate changed; new connections get the new one');
    this.tell(this.material.options);
  }

  close(): void {
    clearInterval(this.timer);
    this.listeners.clear();
  }

  private tell(options: TlsOptions): void {
    for (const listener of this.listeners) {
      try {
        listener(options);
      } catch (cause) {
        this.log.error({ cause }, 'the new certificate could not be taken into use');
      }
    }
  }

  /** Files are replaced one after another, so for a moment they may not fit; the pair that did is served on. */
  private keepOld(failure: unknown): void {
    const problem = failure instanceof Error ? failure.message : String(failure);
    if (problem === this.lastProblem) return;
    this.lastProblem = problem;
    this.log.warn({ problem }, 'certificate files changed and cannot be served; the old ones are kept');
  }

  private report(message: string): void {
    const { subject, validTo, fingerprint256, subjectAltName } = this.material.certificate;
    const fields = { subject, names: subjectAltName, validTo, fingerprint: fingerprint256 };
    const warning = validityWarning(this.material.certificate, this.now());
    if (warning === undefined) this.log.info(fields, message);
    else this.log.warn(fields, `${message}, but ${warning}`);
  }
}

/** The files that are read, by the setting that names them. */
export function tlsFiles(
  settings: TlsSettings,
): readonly { readonly file: TlsFile; readonly path: string }[] {
  const { cert_file, key_file, client_ca_file, client_auth } = settings;
  const named = [
    { file: 'cert_file', path: cert_file },
    { file: 'key_file', path: key_file },
    { file: 'client_ca_file', path: client_auth === 'none' ? undefined : client_ca_file },
  ] as const;
  return named.flatMap(({ file, path }) => (path === undefined ? [] : [{ file, path }]));
}

async function readAll(settings: TlsSettings, section: Path): Promise<TlsTexts> {
  const texts = await Promise.all(
    tlsFiles(settings).map(async ({ file, path }) => {
      try {
        return [file, await readFile(path, 'utf8')] as const;
      } catch (cause) {
        throw unreadableFile([...section, file], path, cause);
      }
    }),
  );
  return Object.fromEntries(texts);
}

interface HandshakeError extends NodeJS.ErrnoException {
  /** What OpenSSL says, without the place in its source. */
  readonly reason?: string;
}

/** Tells the log of clients with whom TLS cannot be spoken, such as those without the certificate that is asked for. */
export class HandshakeFailureLog {
  private readonly warning: ThrottledWarning;
  private readonly log: Log;

  constructor(log: Log) {
    this.log = log;
    this.warning = new ThrottledWarning(log, 'a TLS handshake failed: the connection is closed');
  }

  failed(error: HandshakeError, socket: TLSSocket): void {
    const { code, reason, message } = error;
    const address = socket.remoteAddress;
    const where = address === undefined ? {} : { address };
    const refused = authorizationError(socket);
    if (refused !== undefined) this.warning.warn({ ...where, detail: refused });
    // Health checks connect and leave.
    else if (code === 'ECONNRESET') this.log.debug(where, 'a client left before its TLS handshake was over');
    else this.warning.warn({ ...where, code, detail: reason ?? message });
  }
}

/** Why the certificate of the client does not count. It is a text here, whatever its declared type says, or null. */
function authorizationError({
  authorizationError: why,
}: {
  readonly authorizationError: unknown;
}): string | undefined {
  if (why instanceof Error) return why.message;
  return typeof why === 'string' ? why : undefined;
}

type TlsSettings = Config['server']['tls'];

/** The settings that name files. */
type TlsFile = 'cert_file' | 'key_file' | 'client_ca_file';

/** What the files say, by setting. */
type TlsTexts = Readonly<Partial<Record<TlsFile, string>>>;

interface KeyMaterial {
  readonly options: TlsOptions;
  readonly certificate: X509Certificate;
}

/** A client that connects and then says nothing shall not hold a place. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/**
 * Checks that certificate, key and authorities belong together, and makes of them what a server needs; else throws a
 * `SettingError`.
 */
export function keyMaterial(settings: TlsSettings, texts: TlsTexts, section: Path = SERVER_TLS): KeyMaterial {
  const { cert_file: cert = '', key_file: key = '', client_ca_file: ca } = texts;
  const pem = (name: TlsFile): PemFile => ({
    path: [...section, name],
    file: String(settings[name]),
    text: texts[name] ?? '',
  });
  const certificate = certificateOfPair(pem('cert_file'), pem('key_file'));
  if (ca !== undefined) certificatesIn(pem('client_ca_file'));
  const options: TlsOptions = {
    cert,
    key,
    ...(ca === undefined ? {} : { ca }),
    minVersion: settings.min_version === '1.3' ? 'TLSv1.3' : 'TLSv1.2',
    ciphers: settings.cipher_suites.join(':'),
    ecdhCurve: settings.curves.join(':'),
    // The client could make us work for nothing.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    requestCert: settings.client_auth !== 'none',
    rejectUnauthorized: settings.client_auth === 'require',
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  };
  requireUsable(options, section);
  return { options, certificate };
}

/** What will soon be, or is already, wrong with a certificate; undefined if nothing is. */
function validityWarning({ validFrom, validTo }: X509Certificate, now: Date): string | undefined {
  if (now > new Date(validTo)) return `the certificate expired on ${validTo}`;
  if (now < new Date(validFrom)) return `the certificate is not valid before ${validFrom}`;
  return undefined;
}

/** OpenSSL has rules of its own: keys that are too short, signatures that are too old. */
function requireUsable(options: TlsOptions, section: Path): void {
  try {
    createSecureContext(options);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new SettingError(
      section,
      `${pathText(section)} cannot be used: ${reason}`,
      'Use a certificate and a key that OpenSSL accepts.',
      { cause },
    );
  }
}

/** What a connection knows of its client; only those with TLS have it. */
interface MaybeSecure {
  readonly authorized?: boolean;
  readonly getPeerX509Certificate?: () => X509Certificate | undefined;
}

/** Certificates are read once per connection. */
const known = new WeakMap<object, ClientCertificate | 'none'>();

/** The certificate that a client showed and an authority of the configuration signed; undefined if there is none. */
export function clientCertificateOf(connection: object): ClientCertificate | undefined {
  let found = known.get(connection);
  if (found === undefined) {
    found = readCertificate(connection) ?? 'none';
    known.set(connection, found);
  }
  return found === 'none' ? undefined : found;
}

function readCertificate(connection: MaybeSecure): ClientCertificate | undefined {
  // With `client_auth: request` anybody may show anything.
  if (connection.authorized !== true) return undefined;
  const certificate = connection.getPeerX509Certificate?.();
  if (certificate === undefined) return undefined;
  return {
    fingerprint: certificate.fingerprint256.replaceAll(':', '').toLowerCase(),
    // One attribute per line; commas in their values are escaped.
    subject: certificate.subject.split('\n').join(','),
  };
}

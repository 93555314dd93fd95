import { constants, type X509Certificate } from 'node:crypto';
import { createSecureContext, type TlsOptions } from 'node:tls';
import type { Config } from '../../config/config.ts';
import { certificateOfPair, certificatesIn, type PemFile } from '../../config/pem-files.ts';
import { pathText, type Path } from '../../config/path.ts';
import { SettingError } from '../../config/problem.ts';

export type TlsSettings = Config['server']['tls'];

/** The settings that name files. */
export type TlsFile = 'cert_file' | 'key_file' | 'client_ca_file';

/** What the files say, by setting. */
export type TlsTexts = Readonly<Partial<Record<TlsFile, string>>>;

export interface KeyMaterial {
  readonly options: TlsOptions;
  readonly certificate: X509Certificate;
}

/** A client that connects and then says nothing shall not hold a place. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

const SERVER_TLS: Path = ['server', 'tls'];

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
export function validityWarning({ validFrom, validTo }: X509Certificate, now: Date): string | undefined {
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

import { constants, createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { createSecureContext, type TlsOptions } from 'node:tls';
import type { Config } from '../../config/config.ts';
import { SettingError } from '../../config/setting-error.ts';

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
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Checks that certificate, key and authorities belong together, and makes of them what a server needs; else throws a `SettingError`. */
export function keyMaterial(settings: TlsSettings, texts: TlsTexts): KeyMaterial {
  const { cert_file: cert = '', key_file: key = '', client_ca_file: ca } = texts;
  const [certificate] = certificatesIn('cert_file', settings, cert);
  if (certificate === undefined) throw complaint('cert_file', settings, NO_CERTIFICATE);
  if (!certificate.checkPrivateKey(privateKey(settings, key))) {
    const what = `is not the key of the certificate in ${String(settings.cert_file)}`;
    throw complaint('key_file', settings, { what, advice: 'Name the files of one pair.' });
  }
  if (ca !== undefined && certificatesIn('client_ca_file', settings, ca).length === 0) {
    throw complaint('client_ca_file', settings, NO_CERTIFICATE);
  }
  const options: TlsOptions = {
    cert,
    key,
    ...(ca === undefined ? {} : { ca }),
    minVersion: settings.min_version === '1.3' ? 'TLSv1.3' : 'TLSv1.2',
    // The client could make us work for nothing.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    requestCert: settings.client_auth !== 'none',
    rejectUnauthorized: settings.client_auth === 'require',
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  };
  requireUsable(options);
  return { options, certificate };
}

/** What will soon be, or is already, wrong with a certificate; undefined if nothing is. */
export function validityWarning({ validFrom, validTo }: X509Certificate, now: Date): string | undefined {
  if (now > new Date(validTo)) return `the certificate expired on ${validTo}`;
  if (now < new Date(validFrom)) return `the certificate is not valid before ${validFrom}`;
  return undefined;
}

function certificatesIn(file: TlsFile, settings: TlsSettings, text: string): readonly X509Certificate[] {
  try {
    return [...text.matchAll(CERTIFICATE)].map(([pem]) => new X509Certificate(pem));
  } catch (cause) {
    const what = 'contains a certificate that cannot be read';
    throw complaint(file, settings, { what, advice: 'Is the file complete?', cause });
  }
}

function privateKey(settings: TlsSettings, text: string): KeyObject {
  try {
    return createPrivateKey(text);
  } catch (cause) {
    const found = text.includes('ENCRYPTED') ? ENCRYPTED_KEY : NO_KEY;
    throw complaint('key_file', settings, { ...found, cause });
  }
}

/** OpenSSL has rules of its own: keys that are too short, signatures that are too old. */
function requireUsable(options: TlsOptions): void {
  try {
    createSecureContext(options);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new SettingError(
      ['server', 'tls'],
      `server.tls cannot be used: ${reason}`,
      'Use a certificate and a key that OpenSSL accepts.',
      { cause },
    );
  }
}

interface Found {
  /** Continues "the file ...". */
  readonly what: string;
  readonly advice: string;
  readonly cause?: unknown;
}

const NO_CERTIFICATE: Found = {
  what: 'contains no certificate (PEM)',
  advice: 'A certificate begins with "-----BEGIN CERTIFICATE-----".',
};
const NO_KEY: Found = {
  what: 'contains no private key (PEM)',
  advice: 'A key begins with a line such as "-----BEGIN PRIVATE KEY-----".',
};
const ENCRYPTED_KEY: Found = {
  what: 'is encrypted; decrypt it first',
  advice: 'For instance with: openssl pkey -in encrypted.key -out plain.key.',
};

function complaint(file: TlsFile, settings: TlsSettings, { what, advice, cause }: Found): SettingError {
  const message = `server.tls.${file} (${String(settings[file])}) ${what}`;
  return new SettingError(['server', 'tls', file], message, advice, { cause });
}

import { createSecureContext, type TlsOptions } from 'node:tls';
import type { Config } from '../config/config.ts';
import { readNamedFile, SettingError } from './setting-error.ts';

/** Certificate, key and rules for clients; undefined without TLS. Throws if the files do not fit together. */
export function serverTls({ server: { tls } }: Config): TlsOptions | undefined {
  if (!tls.enabled) return undefined;
  const read = (name: 'cert_file' | 'key_file' | 'client_ca_file'): string | undefined =>
    readNamedFile(['server', 'tls', name], tls[name]);
  const options: TlsOptions = {
    cert: read('cert_file'),
    key: read('key_file'),
    ca: read('client_ca_file'),
    minVersion: tls.min_version === '1.3' ? 'TLSv1.3' : 'TLSv1.2',
    requestCert: tls.client_auth !== 'none',
    rejectUnauthorized: tls.client_auth === 'require',
  };
  requireMatching(options);
  return options;
}

/** A certificate and the key of another one: half of a rotation, or a mistake. */
function requireMatching(options: TlsOptions): void {
  try {
    createSecureContext(options);
  } catch (failure) {
    const reason = failure instanceof Error ? failure.message : String(failure);
    throw new SettingError(
      ['server', 'tls', 'cert_file'],
      `server.tls: the certificate and the key cannot be used together (${reason})`,
      'Name the certificate chain and its own private key, both in PEM.',
    );
  }
}

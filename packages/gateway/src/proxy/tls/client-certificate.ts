import type { X509Certificate } from 'node:crypto';
import type { ClientCertificate } from '../../identity/identity.ts';

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

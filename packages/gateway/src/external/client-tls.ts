import { readFileSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import type { ClientTls } from '../http-client/index.ts';

type ClientTlsConfig = NonNullable<Config['rate_limit']['external']['http']>['tls'];

/** What a connection to the service is opened with. Throws if a file cannot be read. */
export function tlsOptions(tls: ClientTlsConfig): ClientTls {
  return {
    ...(tls.ca_file === undefined ? {} : { ca: readFileSync(tls.ca_file) }),
    ...(tls.cert_file === undefined ? {} : { cert: readFileSync(tls.cert_file) }),
    ...(tls.key_file === undefined ? {} : { key: readFileSync(tls.key_file) }),
    ...(tls.server_name === undefined ? {} : { servername: tls.server_name }),
    rejectUnauthorized: !tls.insecure_skip_verify,
  };
}

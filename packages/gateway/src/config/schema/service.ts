import { z } from 'zod';
import { duration, listenAddress, secret } from './fields.ts';
import { serverTls } from './server.ts';

export const service = z.strictObject({
  address: listenAddress().default('127.0.0.1:8081').meta({
    description: 'Where proxies and applications ask for decisions: HTTP and gRPC on one port.',
  }),
  token: secret().min(16).optional().meta({
    description:
      'The token that callers must send as `Authorization: Bearer ...`; at least 16 characters. Unset: whoever reaches the port may ask.',
  }),
  max_connections: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(10_000)
    .meta({ description: 'Open connections, per worker; further ones are closed at once.' }),
  max_connection_age: duration().prefault('0s').meta({
    description:
      'How long a connection is used before the caller is asked to open another, so that load balancers can spread them. 0: forever.',
  }),
  tls: serverTls.prefault({}).meta({ description: 'TLS, and certificates of callers (mTLS).' }),
});

/** The section where nobody wrote one. */
export const DEFAULT_SERVICE: z.output<typeof service> = service.parse({});

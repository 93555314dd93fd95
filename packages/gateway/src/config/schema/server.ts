import { z } from 'zod';
import { answer, MAX_ANSWERS } from './answers.ts';
import {
  cipherSuite,
  duration,
  filePath,
  headerName,
  list,
  listenAddress,
  size,
  plainText,
  trustedProxy,
} from './fields.ts';

/** Neither RSA key exchange nor CBC. */
const MODERN_CIPHER_SUITES = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
];

/** Certificates of a server of ours. */
export const serverTls = z.strictObject({
  enabled: z.boolean().default(false).meta({ description: 'Serves HTTPS instead of HTTP.' }),
  cert_file: filePath()
    .optional()
    .meta({ description: 'The certificate chain (PEM). Read again when it changes.' }),
  key_file: filePath().optional().meta({ description: 'The private key (PEM). Read again when it changes.' }),
  min_version: z
    .enum(['1.2', '1.3'])
    .default('1.2')
    .meta({ description: 'The oldest TLS version that is accepted.' }),
  cipher_suites: list(cipherSuite(), 64).min(1).default(MODERN_CIPHER_SUITES).meta({
    description:
      'Cipher suites, best first, as OpenSSL names them. By default only those with forward secrecy and authenticated encryption.',
  }),
  curves: list(z.enum(['X25519', 'P-256', 'P-384', 'P-521', 'X448']), 5)
    .min(1)
    .default(['X25519', 'P-256', 'P-384'])
    .meta({ description: 'Groups for the key exchange, best first.' }),
  client_auth: z
    .enum(['none', 'request', 'require'])
    .default('none')
    .meta({ description: 'Whether clients must show a certificate: not requested, requested, or required.' }),
  client_ca_file: filePath()
    .optional()
    .meta({ description: 'The authorities that may sign client certificates (PEM).' }),
});

const clientAddress = z.strictObject({
  trusted_proxies: list(trustedProxy()).default([]).meta({
    description:
      'Proxies that are trusted to name the client: addresses, ranges, or the presets `loopback`, `linkLocal`, `private`.',
  }),
  trusted_hops: z
    .int()
    .min(1)
    .max(32)
    .optional()
    .meta({ description: 'Instead of `trusted_proxies`: how many proxies every request passes through.' }),
  source: z
    .enum(['x-forwarded-for', 'forwarded'])
    .default('x-forwarded-for')
    .meta({ description: 'The header in which the proxies name the client.' }),
  ipv6_prefix: z.int().min(32).max(64).default(64).meta({
    description: 'IPv6 clients are counted per network of this length.',
  }),
});

const limits = {
  max_connections: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(10_000)
    .meta({ description: 'Open client connections, per worker.' }),
  max_connections_per_address: z.int().min(0).max(1_000_000).default(1000).meta({
    description:
      'Open connections per address, or per IPv6 network (`client_address.ipv6_prefix`), per worker; further ones are closed at once. Proxies of `client_address` are exempt. 0: no limit.',
  }),
  max_overhead_per_address: size({ max: 2 ** 30 })
    .prefault('2MiB')
    .meta({
      description:
        'What one client address, or IPv6 network (`client_address.ipv6_prefix`), may send that makes work and carries nothing, such as malformed requests and one-byte chunks ([what counts](gateway-security.md#floods)); an eighth of it comes back every second, per worker. A connection that uses it up is cut off. 0: no limit.',
    }),
  max_concurrent_requests: z.int().min(1).max(1_000_000).default(10_000).meta({
    description: 'Requests in flight; further ones get a 503.',
  }),
  max_concurrent_requests_per_address: z.int().min(0).max(1_000_000).default(1000).meta({
    description:
      'Requests in flight per client address, or per IPv6 network (`client_address.ipv6_prefix`), per worker; further ones get a 429. Open WebSockets do not count. 0: no limit.',
  }),
  max_streams_per_connection: z.int().min(1).max(10_000).default(100).meta({
    description: 'Requests in flight on one HTTP/2 connection.',
  }),
  max_requests_per_connection: z
    .int()
    .min(0)
    .max(2 ** 31)
    .default(0)
    .meta({
      description: 'Requests after which a connection is closed. 0: never.',
    }),
  max_header_bytes: size({ min: 1024, max: 2 ** 20 })
    .prefault('16KiB')
    .meta({
      description: 'Total size of the headers of a request; more gets a 431.',
    }),
  max_headers: z
    .int()
    .min(10)
    .max(2000)
    .default(100)
    .meta({ description: 'Number of headers of a request; more gets a 431.' }),
  max_uri_bytes: size({ min: 256, max: 2 ** 20 })
    .prefault('8KiB')
    .meta({
      description: 'Size of the path and query of a request; more gets a 414.',
    }),
  encoded_slashes: z.enum(['refuse', 'keep']).default('refuse').meta({
    description:
      '`%2F` in a path: refused with a 400, or kept as an ordinary character of its segment. Even then it is a 400 if a slash in its place would make another rule or key apply.',
  }),
};

const timeouts = {
  header_timeout: duration({ min: 100 })
    .prefault('10s')
    .meta({ description: 'How long a client may take to send its headers; then a 408.' }),
  body_idle_timeout: duration({ min: 100 }).prefault('30s').meta({
    description: 'How long a client may send nothing in the middle of a body; then a 408.',
  }),
  min_body_rate: size().prefault(240).meta({
    description:
      'Bytes per second of a body that a client must send on average while the gateway waits for it, after the first 10 seconds; a slower one gets a 408. 0: no limit.',
  }),
  min_read_rate: size().prefault(240).meta({
    description:
      'Bytes per second of a response that a client must take on average while the gateway waits for it, after the first 10 seconds; a slower one is cut off when it takes the next bytes. One that takes nothing at all has `write_timeout`. 0: no limit.',
  }),
  read_timeout: duration()
    .prefault('0s')
    .meta({ description: 'How long a whole request may take to arrive. 0: as long as it flows.' }),
  write_timeout: duration({ min: 100 })
    .prefault('30s')
    .meta({ description: 'How long a client may stop reading a response before it is cut off.' }),
  idle_timeout: duration({ min: 100 })
    .prefault('2m')
    .meta({ description: 'How long a connection stays open between requests.' }),
  request_timeout: duration().prefault('0s').meta({
    description:
      'How long a request may take in total, from its headers on, including a wait in a leaky bucket. 0: no limit.',
  }),
  drain_delay: duration().prefault('0s').meta({
    description:
      'At shutdown: how long connections are still accepted while `/readyz` answers 503, so that load balancers notice.',
  }),
  drain_timeout: duration()
    .prefault('30s')
    .meta({ description: 'At shutdown: how long requests in flight may take to finish.' }),
};

const websockets = z.strictObject({
  allowed_origins: list(plainText())
    .default([])
    .meta({ description: 'Origins that may open a WebSocket. Empty: all.' }),
  max_per_key: z
    .int()
    .min(0)
    .max(1_000_000)
    .default(0)
    .meta({ description: 'Open WebSockets per key. 0: no limit.' }),
  max_transfer_bytes: size()
    .prefault(0)
    .meta({ description: 'Bytes per WebSocket in each direction. 0: no limit.' }),
  idle_timeout: duration()
    .prefault('5m')
    .meta({ description: 'How long a WebSocket may be silent before it is closed. 0: forever.' }),
});

export const server = z.strictObject({
  address: listenAddress().default(':8080').meta({ description: 'Where clients connect.' }),
  workers: z
    .int()
    .min(1)
    .max(256)
    .default(1)
    .meta({ description: 'Processes that share the port. More than one needs `redis`.' }),
  http2: z
    .boolean()
    .default(true)
    .meta({ description: 'HTTP/2: by ALPN with TLS, by prior knowledge (h2c) without.' }),
  request_id_header: headerName()
    .default('X-Request-Id')
    .meta({ description: 'Carries the id of a request to the backend and back.' }),
  ...limits,
  ...timeouts,
  answers: list(answer, MAX_ANSWERS).default([]).meta({
    description: 'What the gateway answers itself, in your own words. The first that names an answer holds.',
  }),
  client_address: clientAddress.prefault({}).meta({ description: 'How to find the client behind proxies.' }),
  websocket: websockets.prefault({}).meta({ description: 'WebSockets.' }),
  tls: serverTls.prefault({}).meta({ description: 'HTTPS.' }),
});

import { z } from 'zod';
import { type DeepReadonly, duration, headerName, hostPort, httpUrl, list, secret, size } from './fields.ts';
import { clientTls } from './redis.ts';

/** Never sent unless an `allow_list` names them. */
export const SENSITIVE_HEADERS: readonly string[] = [
  'Authorization',
  'Cookie',
  'Set-Cookie',
  'Proxy-Authorization',
  'X-Api-Key',
  'X-Auth-Token',
  'X-Csrf-Token',
  'X-Xsrf-Token',
];

/** What carries or frames a question, in either protocol. */
const NEEDED_HEADER =
  /^(?:content-|accept|grpc-|connect-|host$|te$|trailer$|transfer-encoding$|connection$|keep-alive$|upgrade$|expect$)/i;

const headerFilter = z.strictObject({
  allow_list: list(headerName(), 256)
    .default([])
    .meta({ description: 'The only headers that are sent. Without it and without `deny_list`: none.' }),
  deny_list: list(headerName(), 256).optional().meta({
    description:
      'Sends all headers except these and those that carry credentials. Ignored if there is an `allow_list`.',
  }),
});

export type HeaderFilterConfig = DeepReadonly<z.output<typeof headerFilter>>;

const requestField = z.enum(['headers', 'method', 'path']);
export type RequestField = z.output<typeof requestField>;

export const breaker = z.strictObject({
  threshold: z
    .int()
    .min(1)
    .max(1000)
    .default(5)
    .meta({ description: 'Failures in a row for a key until the service is no longer asked about it.' }),
  reset_timeout: duration({ min: 1 })
    .prefault('30s')
    .meta({ description: 'How long until one request tries again.' }),
});

/** A secret that a service knows the gateway by. */
export const serviceAuth = z.strictObject({
  header: headerName()
    .refine((name) => !NEEDED_HEADER.test(name), {
      error: 'is a header that the request itself needs; use another one, such as "Authorization"',
    })
    .default('Authorization')
    .meta({ description: 'The header, or gRPC metadata, that authenticates the gateway.' }),
  value: secret()
    .regex(/^[!-~](?:[ -~]*[!-~])?$/, {
      error: 'must be printable ASCII without spaces around it',
    })
    .meta({ description: 'Its value, such as `Bearer` and a token.' }),
});

export const external = z.strictObject({
  enabled: z.boolean().default(false).meta({ description: 'Asks a service for the limits of each key.' }),
  timeout: duration({ min: 1, max: 60_000 })
    .prefault('5s')
    .meta({ description: 'How long an answer may take.' }),
  cache_ttl: duration()
    .prefault('60s')
    .meta({ description: 'How long an answer is cached if it does not say so itself.' }),
  stale_ttl: duration()
    .prefault('5m')
    .meta({ description: 'How long an expired answer may be used while the service fails.' }),
  max_concurrent_requests: z
    .int()
    .min(1)
    .max(10_000)
    .default(50)
    .meta({ description: 'Calls in flight at once.' }),
  max_queued_requests: z.int().min(0).max(100_000).default(500).meta({
    description: 'Calls that may wait for a free slot; further requests get the static limits at once.',
  }),
  max_cached_keys: z.int().min(1).max(10_000_000).default(100_000).meta({
    description: 'Answers that each gateway caches in memory, in front of Redis.',
  }),
  request_fields: list(requestField, 3).default(['headers', 'method', 'path']).meta({
    description:
      'What the service sees besides the key. Answers are cached by everything that is sent, so leave out what the limits do not depend on.',
  }),
  max_response_bytes: size({ min: 64, max: 2 ** 20 })
    .prefault('64KiB')
    .meta({ description: 'The largest answer, uncompressed.' }),
  http: z
    .strictObject({
      url: httpUrl().meta({ description: 'Gets a POST with JSON.' }),
      tls: z
        .strictObject(clientTls())
        .prefault({})
        .meta({ description: 'TLS to the service, if its URL is https.' }),
    })
    .optional()
    .meta({ description: 'The service speaks HTTP.' }),
  grpc: z
    .strictObject({
      address: hostPort().meta({ description: 'Offers `edgequota.ratelimit.v1.RateLimitService`.' }),
      codec: z.enum(['protobuf', 'json']).default('protobuf').meta({
        description: 'How messages are encoded. `json`: for services without generated code.',
      }),
      tls: z
        .strictObject({
          enabled: z.boolean().default(false).meta({ description: 'TLS to the service.' }),
          ...clientTls(),
        })
        .prefault({})
        .meta({ description: 'TLS to the service.' }),
    })
    .optional()
    .meta({ description: 'The service speaks gRPC.' }),
  auth: serviceAuth.optional().meta({ description: 'How the gateway shows the service who it is.' }),
  header_filter: headerFilter
    .prefault({})
    .meta({ description: 'Which headers of a request the service sees.' }),
  circuit_breaker: breaker.prefault({}).meta({ description: 'Spares a service that fails.' }),
});

import { z } from 'zod';
import { breaker, serviceAuth } from './external.ts';
import { type DeepReadonly, duration, headerName, hostPort, httpUrl, list, size } from './fields.ts';
import { clientTls } from './redis.ts';
import { match } from './rule.ts';

export const authorization = z.strictObject({
  enabled: z.boolean().default(false).meta({
    description:
      'Asks a service whether a request may pass, before any limit counts it: [authorization.md](authorization.md).',
  }),
  http: z
    .strictObject({
      url: httpUrl().meta({ description: 'Gets a GET per request, as forward auth has it.' }),
      tls: z.strictObject(clientTls()).prefault({}).meta({ description: 'TLS to it, if its URL is https.' }),
    })
    .optional()
    .meta({ description: 'The service speaks HTTP.' }),
  grpc: z
    .strictObject({
      address: hostPort().meta({
        description: "Offers `envoy.service.auth.v3.Authorization` (Envoy's `ext_authz`).",
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
  timeout: duration({ min: 1, max: 60_000 })
    .prefault('2s')
    .meta({ description: 'How long an answer may take.' }),
  failure_policy: z
    .enum(['failClosed', 'passThrough'])
    .default('failClosed')
    .meta({ description: 'What holds while the service does not answer: a 503, or every request passes.' }),
  except: list(match, 100)
    .default([])
    .meta({ description: 'Requests that pass without being asked about, as rules match them.' }),
  request_headers: list(headerName(), 64).default(['Authorization', 'Cookie']).meta({
    description: 'Headers of the client that the service sees, besides method, host, path and address.',
  }),
  upstream_headers: list(headerName(), 64).default([]).meta({
    description:
      'Headers of its answer that the backend gets, such as `X-User-Id`. What clients send under these names is always removed.',
  }),
  response_headers: list(headerName(), 64)
    .default(['WWW-Authenticate', 'Location', 'Set-Cookie', 'Retry-After'])
    .meta({ description: 'Headers of a refusal that the client gets, besides its `Content-Type`.' }),
  cache_ttl: duration().prefault('0s').meta({
    description:
      'How long an answer is used again for a request that looks the same to the service, if it does not say so itself (`Cache-Control`). 0: not at all.',
  }),
  stale_ttl: duration()
    .prefault('0s')
    .meta({ description: 'How long an expired answer may be used while the service fails.' }),
  max_cached: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(10_000)
    .meta({ description: 'Answers that each worker caches, 32 MB of them at most.' }),
  max_concurrent_requests: z
    .int()
    .min(1)
    .max(10_000)
    .default(100)
    .meta({ description: 'Calls in flight at once.' }),
  max_queued_requests: z
    .int()
    .min(0)
    .max(100_000)
    .default(1000)
    .meta({ description: 'Calls that may wait for others; beyond that the failure policy answers at once.' }),
  max_response_bytes: size({ min: 64, max: 2 ** 20 })
    .prefault('64KiB')
    .meta({ description: 'The largest body of a refusal that clients get; a larger one is left out.' }),
  circuit_breaker: breaker.prefault({}).meta({ description: 'Spares a service that fails.' }),
});

export type AuthorizationConfig = DeepReadonly<z.output<typeof authorization>>;

import { z } from 'zod';
import { duration, filePath, list, listenAddress, plainText, secret, type DeepReadonly } from './fields.ts';
import { name } from './rule.ts';
import { serverTls } from './server.ts';

const descriptorEntry = z.strictObject({
  key: plainText({ max: 256 }).meta({ description: 'The key of the entry.' }),
  value: plainText()
    .optional()
    .meta({ description: 'The value it must have; `*` stands for any characters. Unset: any value.' }),
});

const rls = z.strictObject({
  descriptors: list(
    z.strictObject({
      domain: plainText({ max: 256 }).meta({ description: 'The domain that Envoy is configured with.' }),
      entries: list(descriptorEntry, 32)
        .min(1)
        .meta({ description: 'The entries that a descriptor must have, all of them and in this order.' }),
      policies: list(name(), 32).min(1).meta({
        description:
          'The policies that it meets. They count by the value that `entries` leaves open, or by all of them where there are several.',
      }),
      shadow: z.boolean().default(false).meta({ description: 'Counts, and never refuses.' }),
    }),
  )
    .default([])
    .meta({ description: 'Which descriptors meet which policies. The first that fits decides.' }),
  directory: filePath().optional().meta({
    description:
      'A folder with the YAML files of envoyproxy/ratelimit, used for descriptors that `descriptors` does not mention. Read again when it changes.',
  }),
  merge_domains: z
    .boolean()
    .default(false)
    .meta({ description: 'Several files of `directory` may describe one domain.' }),
  algorithm: z
    .enum(['fixedWindow', 'slidingWindowCounter', 'slidingWindowLog', 'tokenBucket'])
    .default('fixedWindow')
    .meta({
      description: 'How the units of `directory`, and limits that requests bring along, are counted.',
    }),
  compat: z.enum(['exact', 'strict']).default('exact').meta({
    description:
      '`exact`: all limits of a request are charged or none. `strict`: counts and answers as envoyproxy/ratelimit does, in fixed windows.',
  }),
  shadow: z.boolean().default(false).meta({ description: 'Counts, and answers OK to everything.' }),
  refunds: z.boolean().default(false).meta({
    description:
      'Hits may be given back (`is_negative_hits`): the latest charges are remembered for it. With `exact` only.',
  }),
  response_headers: z.boolean().optional().meta({
    description:
      'Sends headers about limits to clients: those of the gateway, or with `strict` those of envoyproxy/ratelimit. Unset: `true`, with `strict` `false`.',
  }),
  dynamic_metadata: z
    .boolean()
    .default(false)
    .meta({ description: 'Sends the request and the metadata of the files back as dynamic metadata.' }),
});

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
  rls: rls.prefault({}).meta({ description: "Envoy's rate limit service." }),
  tls: serverTls.prefault({}).meta({ description: 'TLS, and certificates of callers (mTLS).' }),
});

/** What holds for Envoy's rate limit service. */
export type RlsConfig = DeepReadonly<z.output<typeof rls>>;

/** The section where nobody wrote one. */
export const DEFAULT_SERVICE: z.output<typeof service> = service.parse({});

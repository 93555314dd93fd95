import { z } from 'zod';
import { duration, filePath, hostPort, list, redisUrl, secret, plainText } from './fields.ts';

const TLS_DESCRIPTION = 'TLS to these servers.';

/** Certificates for connections that the gateway opens. */
export function clientTls() {
  return {
    ca_file: filePath()
      .optional()
      .meta({ description: "Certificate authorities to trust instead of the system's (PEM)." }),
    cert_file: filePath().optional().meta({ description: 'A client certificate (PEM), with `key_file`.' }),
    key_file: filePath().optional().meta({ description: 'The key of the client certificate (PEM).' }),
    server_name: plainText({ max: 253 })
      .optional()
      .meta({ description: "The name to verify in the certificate, instead of the host's." }),
    insecure_skip_verify: z.boolean().default(false).meta({
      description: 'Accepts every certificate, so anyone in between can read and change everything.',
    }),
  };
}

const MAX_SERVERS = 256;
export const DEFAULT_ENDPOINTS: readonly string[] = ['localhost:6379'];

/** One URL, a list of them, or several in one text, as a variable has them: the program always gets a list. */
const urls = z
  .codec(z.union([z.string(), z.array(z.string())]), z.array(redisUrl()).min(1).max(MAX_SERVERS), {
    decode: (written) => (typeof written === 'string' ? written.split(/,\s*(?=rediss?:)/) : written),
    encode: (several) => (several.length === 1 ? (several[0] ?? '') : [...several]),
  })
  .meta({ kind: 'URL', secret: true, examples: ['redis://localhost:6379'] });

const shard = z.strictObject({
  name: z
    .string()
    .regex(/^[\w.:[\]-]{1,128}$/, { error: "must have 1 to 128 letters, digits, '_', '-', '.' or ':'" })
    .optional()
    .meta({
      description: 'What keys are placed by: keep it when the address changes. Default: its `host:port`.',
    }),
  endpoint: hostPort().optional().meta({ description: 'Its address, or `url`.' }),
  url: redisUrl()
    .optional()
    .meta({ description: 'Its address as a URL, with its own user, password and database.' }),
  weight: z.number().min(0.001).max(1000).default(1).meta({
    description: "Its share of the keys in proportion to the others'.",
  }),
});

export const redis = z.strictObject({
  url: urls.optional().meta({
    description:
      'The servers as URLs, one or a list, instead of `endpoints`: `redis://user:password@host:6379/0`, or `rediss://` for TLS. What a URL does not say is taken from the settings below.',
  }),
  endpoints: list(hostPort(), MAX_SERVERS)
    .min(1)
    .default([...DEFAULT_ENDPOINTS])
    .meta({
      description:
        'The servers: one, some of a cluster, the sentinels, a master and its replicas, or shards.',
    }),
  mode: z.enum(['single', 'replication', 'sentinel', 'cluster', 'shards']).default('single').meta({
    description:
      'How the servers work together. `replication`: a master and its replicas, in any order; each is asked for its `ROLE`, and a promoted replica is followed. `shards`: independent servers that share the keys.',
  }),
  shards: list(shard, MAX_SERVERS).default([]).meta({
    description:
      'For mode `shards`, instead of `endpoints` or `url`: independent servers with names and weights.',
  }),
  master_name: plainText({ max: 128 })
    .optional()
    .meta({ description: "The name of the primary in the sentinels' configuration." }),
  username: plainText().optional().meta({ description: 'The ACL user.' }),
  password: secret().optional().meta({ description: 'Its password.' }),
  sentinel_username: plainText()
    .optional()
    .meta({ description: 'The user on the sentinels, if they have one.' }),
  sentinel_password: secret().optional().meta({ description: 'Its password.' }),
  db: z.int().min(0).max(65_535).default(0).meta({ description: 'The database; a cluster has only 0.' }),
  key_prefix: z
    .string()
    .regex(/^[\w.:-]{1,64}$/, { error: "must have 1 to 64 letters, digits, '_', '-', '.' or ':'" })
    .default('spillgate:')
    .meta({ description: 'The prefix of all key names.' }),
  pool_size: z.int().min(1).max(1000).default(10).meta({
    description: 'Accepted for compatibility, without effect: each server has one pipelined connection.',
  }),
  dial_timeout: duration({ min: 1, max: 60_000 })
    .prefault('1s')
    .meta({ description: 'How long opening a connection may take.' }),
  read_timeout: duration({ min: 1, max: 60_000 })
    .prefault('50ms')
    .meta({ description: 'A call without an answer for this long counts as failed.' }),
  tls: z
    .strictObject({
      enabled: z.boolean().default(false).meta({ description: TLS_DESCRIPTION }),
      ...clientTls(),
    })
    .prefault({})
    .meta({ description: TLS_DESCRIPTION }),
});

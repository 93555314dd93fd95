import { z } from 'zod';
import { duration, filePath, hostPort, list, secret, plainText } from './fields.ts';

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

export const redis = z.strictObject({
  endpoints: list(hostPort(), 256).min(1).default(['localhost:6379']).meta({
    description: 'The servers: one, some of a cluster, the sentinels, or a primary and its replicas.',
  }),
  mode: z.enum(['single', 'replication', 'sentinel', 'cluster']).default('single').meta({
    description:
      'How the servers work together. `replication`: the first is the primary; the others are not used.',
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

import { z } from 'zod';
import { authorization } from './schema/authorization.ts';
import { backend, namedBackend } from './schema/backend.ts';
import { cors } from './schema/cors.ts';
import {
  type DeepReadonly,
  duration,
  filePath,
  httpUrl,
  list,
  listenAddress,
  secret,
  plainText,
} from './schema/fields.ts';
import { identity } from './schema/identity.ts';
import { maintenance } from './schema/answers.ts';
import { rateLimit } from './schema/rate-limit.ts';
import { redis } from './schema/redis.ts';
import { name } from './schema/rule.ts';
import { server } from './schema/server.ts';
import { service } from './schema/service.ts';
import { usageEvents } from './schema/usage-events.ts';

const admin = z.strictObject({
  enabled: z.boolean().default(true).meta({ description: 'Serves health, metrics and the admin API.' }),
  address: listenAddress()
    .default('127.0.0.1:9090')
    .meta({ description: 'Where operators connect. Any address other than loopback needs a `token`.' }),
  token: secret().min(16).optional().meta({
    description: 'The token that requests must send as `Authorization: Bearer ...`; at least 16 characters.',
  }),
  read_only_token: secret().min(16).optional().meta({
    description:
      'A second token, for those who may see everything that `token` shows and change nothing; at least 16 characters.',
  }),
  allowed_hosts: list(plainText({ max: 253 }), 100)
    .default([])
    .meta({
      description:
        'Host names that requests may use, without port, in addition to `localhost`, `127.0.0.1`, `[::1]`, the host of `address` and the address that was connected to. All others are refused.',
    }),
  read_timeout: duration({ min: 100 })
    .prefault('5s')
    .meta({ description: 'How long a request may take to arrive.' }),
  write_timeout: duration({ min: 100 })
    .prefault('10s')
    .meta({ description: 'How long a response may take.' }),
  idle_timeout: duration({ min: 100 })
    .prefault('30s')
    .meta({ description: 'How long a connection stays open between requests.' }),
});

const logging = z.strictObject({
  level: z.enum(['debug', 'info', 'warn', 'error']).default('info').meta({
    description:
      'The lowest level that is logged. The access log and the decision log have settings of their own.',
  }),
  format: z.enum(['auto', 'json', 'pretty']).default('auto').meta({
    description: '`json` for machines, `pretty` for people; `auto`: readable on a terminal, else JSON.',
  }),
  access_log_enabled: z.boolean().default(true).meta({ description: 'A line per request.' }),
  decision_log: z
    .enum(['off', 'denied', 'all'])
    .default('denied')
    .meta({ description: 'Which decisions get a line.' }),
});

const tracing = z.strictObject({
  enabled: z.boolean().default(false).meta({ description: 'Sends OpenTelemetry traces.' }),
  endpoint: httpUrl().optional().meta({ description: 'The URL of an OTLP/HTTP collector.' }),
  service_name: plainText({ max: 255 })
    .default('spillgate')
    .meta({ description: 'The name of the gateway in traces.' }),
  sample_rate: z
    .number()
    .min(0)
    .max(1)
    .default(0.1)
    .meta({ description: 'The share of requests that are traced.' }),
});

// The one schema: types, defaults, validation, JSON Schema, environment variables and the reference page come from it.
export const configSchema = z.strictObject({
  server: server.prefault({}).meta({ description: 'Where clients connect, and what they may send.' }),
  backend: backend.prefault({}).meta({ description: 'Where admitted requests go.' }),
  backends: z
    .record(name(), namedBackend)
    .default({})
    .meta({ description: 'More services, by name, for the rules that name them in `backend`.' }),
  maintenance: maintenance.prefault({}).meta({ description: 'Closes the service for a while, and says so.' }),
  cors: cors.optional().meta({
    description:
      'What pages of other origins may do (CORS). Without this section preflights are requests like any other, and pages cannot read what the gateway answers itself.',
  }),
  authorization: authorization
    .prefault({})
    .meta({ description: 'A service that says whether a request may pass at all.' }),
  rate_limit: rateLimit.prefault({}).meta({ description: 'How many requests clients may send.' }),
  identity: identity
    .prefault({})
    .meta({ description: 'Who is asking: API keys, tokens, and what they may do.' }),
  redis: redis
    .optional()
    .meta({ description: 'Where limits are kept. Without this section: in the memory of this process.' }),
  cache_redis: redis.optional().meta({
    description: 'Where answers of the external service are cached. Without this section: in `redis`.',
  }),
  service: service.optional().meta({
    description:
      'The decision service for other proxies and other languages. Without this section only `spillgate serve` offers it.',
  }),
  state_dir: filePath().optional().meta({
    description:
      'A folder for what the gateway has to remember over restarts: overrides and blocks that were set at run time. Not needed with `redis`, which keeps them for all gateways. Each gateway needs a folder of its own.',
  }),
  admin: admin.prefault({}).meta({ description: 'The admin server.' }),
  logging: logging.prefault({}).meta({ description: 'Logs.' }),
  usage_events: usageEvents.prefault({}).meta({ description: 'An event per finished request.' }),
  tracing: tracing.prefault({}).meta({ description: 'Traces.' }),
});

/** A valid configuration. Durations are milliseconds, sizes are bytes; names are those of the file. */
export type Config = DeepReadonly<z.output<typeof configSchema>>;

// The one schema: types, defaults, validation, JSON Schema, environment variables and the reference page come from it.
import { z } from 'zod';
import type { DeepReadonly } from './schema/fields.ts';
import { backend } from './schema/backend.ts';
import { admin, logging, tracing } from './schema/operations.ts';
import { rateLimit } from './schema/rate-limit.ts';
import { redis } from './schema/redis.ts';
import { server } from './schema/server.ts';
import { service } from './schema/service.ts';

export const configSchema = z.strictObject({
  server: server.prefault({}).meta({ description: 'Where clients connect, and what they may send.' }),
  backend: backend.prefault({}).meta({ description: 'Where admitted requests go.' }),
  rate_limit: rateLimit.prefault({}).meta({ description: 'How many requests clients may send.' }),
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
  admin: admin.prefault({}).meta({ description: 'The admin server.' }),
  logging: logging.prefault({}).meta({ description: 'Logs.' }),
  tracing: tracing.prefault({}).meta({ description: 'Traces.' }),
});

/** A valid configuration. Durations are milliseconds, sizes are bytes; names are those of the file. */
export type Config = DeepReadonly<z.output<typeof configSchema>>;

import { z } from 'zod';
import { serviceAuth } from './external.ts';
import { type DeepReadonly, duration, filePath, httpUrl, list } from './fields.ts';
import { clientTls } from './redis.ts';

export const usageEvents = z.strictObject({
  enabled: z.boolean().default(false).meta({
    description:
      'Tells of every finished request, for billing and analytics: [what an event says](gateway-operations.md#usage-events).',
  }),
  file: filePath().optional().meta({ description: 'Appends to this file, one event per line (NDJSON).' }),
  http: z
    .strictObject({
      url: httpUrl().meta({
        description: 'Gets batches of CloudEvents (`application/cloudevents-batch+json`) by POST.',
      }),
      tls: z.strictObject(clientTls()).prefault({}).meta({ description: 'TLS to it, if its URL is https.' }),
      auth: serviceAuth.optional().meta({ description: 'How the gateway shows it who it is.' }),
      timeout: duration({ min: 100, max: 60_000 })
        .prefault('10s')
        .meta({ description: 'How long an answer may take; then the batch is sent again.' }),
    })
    .optional()
    .meta({ description: 'Sends them to a service, instead of `file`.' }),
  outcomes: list(z.enum(['forwarded', 'answered', 'refused', 'invalid', 'failed', 'aborted']), 6)
    .min(1)
    .default(['forwarded', 'refused'])
    .meta({ description: 'Which requests, by what became of them.' }),
  batch_size: z.int().min(1).max(10_000).default(500).meta({ description: 'Events at once.' }),
  flush_interval: duration({ min: 10, max: 3_600_000 })
    .prefault('1s')
    .meta({ description: 'How long an event waits for others, at most.' }),
  max_queued: z.int().min(1).max(1_000_000).default(10_000).meta({
    description:
      'Events that wait, per worker, while nobody takes them; further ones are dropped and counted.',
  }),
});

export type UsageEventsConfig = DeepReadonly<z.output<typeof usageEvents>>;

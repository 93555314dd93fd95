// What the admin API takes and gives: requests and responses are checked with these, and the OpenAPI document is made
// of them.
import { z } from 'zod';
import { shown } from '../config/shown.ts';
import { PROBLEMS } from './problems.ts';
import { POLICY_SETTINGS, type PolicySetting } from '../config/schema/policy.ts';

const count = () => z.int().min(0);
const time = () => z.iso.datetime().meta({ description: 'A time, as ISO 8601 in UTC.' });
const status = () => z.enum(['up', 'degraded', 'down']);
const durationText = () =>
  z
    .string()
    .min(1)
    .max(64)
    .meta({ examples: ['30s'] });

const origin = z.discriminatedUnion('from', [
  z.strictObject({ from: z.literal('file'), file: z.string(), line: z.int(), column: z.int() }),
  z.strictObject({ from: z.literal('env'), name: z.string() }),
  z.strictObject({ from: z.literal('default') }),
]);

const configProblem = z.strictObject({
  severity: z.enum(['error', 'warning']),
  origin,
  path: z.string(),
  message: z.string(),
  suggestion: z.string().optional(),
});

export const problem = z.strictObject({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string().meta({ description: 'The value, what was expected, and what to do.' }),
  code: z.enum(Object.keys(PROBLEMS)),
  problems: z
    .array(configProblem)
    .optional()
    .meta({ description: 'Every problem of a configuration that was refused.' }),
});

export const probe = z.strictObject({ status: z.enum(['ok', 'starting', 'draining']) });

const backend = z.strictObject({
  origin: z.string(),
  healthy: z.boolean(),
  inFlight: count(),
  lastError: z.string().optional(),
});

const node = z.strictObject({
  name: z.string(),
  status: status(),
  detail: z.string(),
  since: z.string().optional(),
  lastError: z.string().optional(),
});

export const readiness = z.strictObject({
  status: z.enum([...probe.shape.status.options, 'store-unavailable']),
  store: z
    .strictObject({
      status: status(),
      nodes: z.array(node),
      problem: z.string().optional().meta({ description: 'Why no decision can be made now.' }),
    })
    .optional()
    .meta({ description: 'Where states live, with `deep`.' }),
  backends: z.array(backend).optional().meta({ description: 'The servers behind the gateway, with `deep`.' }),
});

const reloadResult = {
  outcome: z.enum(['applied', 'unchanged', 'refused']),
  generation: z.int().min(1).meta({ description: 'Of the configuration that is in use now.' }),
  problems: z.array(configProblem),
};

export const reloaded = z.strictObject(reloadResult);

export const liveConfig = z.strictObject({
  generation: z.int().min(1),
  loadedAt: time(),
  lastReload: z.strictObject({ ...reloadResult, at: time() }).optional(),
  config: z.record(z.string(), z.unknown()).meta({ description: 'As a file would say it, without secrets.' }),
  settings: z
    .array(z.strictObject({ path: z.string(), value: z.unknown(), origin }))
    .meta({ description: 'Every value, and where it came from.' }),
});

const outcomes = z.strictObject({
  forwarded: count(),
  refused: count(),
  invalid: count(),
  failed: count(),
  aborted: count(),
});

export const stats = z.strictObject({
  version: z.string(),
  phase: z.enum(['starting', 'ready', 'draining']),
  startedAt: time(),
  uptimeSeconds: z.number().min(0),
  generation: z.int().min(1),
  traffic: z.strictObject({
    requests: outcomes,
    rules: z.array(z.strictObject({ rule: z.string(), requests: outcomes })),
    requestsInFlight: count(),
    connections: count(),
    tunnels: count(),
    receivedBytes: count(),
    sentBytes: count(),
  }),
  backends: z.array(backend),
});

function valueOf({ kind, choices = [] }: PolicySetting): z.ZodType<number | string> {
  if (kind === 'count') return z.int().min(1);
  if (kind === 'choice') return z.enum(choices);
  return kind === 'timeZone' ? z.string() : durationText();
}

const numbers = z.strictObject(
  Object.fromEntries(
    POLICY_SETTINGS.map((each): [string, z.ZodType<number | string | undefined>] => [
      each.setting,
      valueOf(each).optional(),
    ]),
  ),
);

export const overrideNumbers = numbers
  .refine((given) => Object.keys(given).length > 0, {
    error: 'has no number; expected at least one, such as {"average": 100}',
  })
  .meta({
    description: 'Numbers for this key, named as in the configuration; those left out stay the same.',
  });

export const policies = z.strictObject({
  policies: z.array(
    z.strictObject({
      name: z.string(),
      algorithm: z.string(),
      numbers: numbers.meta({ description: 'As the configuration has them, and as an override takes them.' }),
      limit: z.int().min(1).meta({ description: 'The largest cost that can ever be admitted at once.' }),
      failure_policy: z.string().optional().meta({ description: 'If it has one of its own.' }),
      overrides: z
        .strictObject({
          configured: count().meta({ description: 'In the configuration.' }),
          runtime: count().meta({ description: 'Given here since the start; these win.' }),
        })
        .meta({ description: 'How many keys have other numbers.' }),
    }),
  ),
});

export const keyState = z.strictObject({
  policy: z.string(),
  key: z.string(),
  allowed: z.boolean().meta({ description: 'Whether a request of this cost would be admitted now.' }),
  limit: z.int(),
  remaining: z.int(),
  retryAfterMs: z.number().min(0).nullable().meta({ description: 'Null: it can never fit.' }),
  resetAfterMs: z.number().min(0),
  delayMs: z.number().min(0),
  source: z.enum(['store', 'lease', 'denialCache', 'overflow', 'fallback', 'failurePolicy']),
  degraded: z.boolean(),
  override: overrideNumbers.nullable().meta({ description: 'What it was given here; null: nothing.' }),
});

export const forgotten = z.strictObject({ policy: z.string(), key: z.string(), forgotten: z.literal(true) });

export const overridden = z.strictObject({
  policy: z.string(),
  key: z.string(),
  limit: z.int().min(1).meta({ description: 'The largest cost of this key now.' }),
  override: overrideNumbers.nullable(),
});

export const deepQuery = z.object({ deep: z.enum(['0', '1', 'true', 'false']).optional() });

export const costQuery = z.object({
  cost: z
    .string()
    .regex(/^\d{1,15}$/, {
      error: ({ input }) =>
        `is ${shown(input)}; expected a whole number of at most 15 digits, such as cost=5`,
    })
    .optional()
    .meta({ description: 'What the request would cost; 1 when left out.' }),
});

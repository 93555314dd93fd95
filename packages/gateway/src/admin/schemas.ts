// What the admin API takes and gives: requests and responses are checked with these, and the OpenAPI document is made
// of them.
import { z } from 'zod';
import { shown } from '../config/shown.ts';
import { PROBLEMS } from './problems.ts';
import { DECISION_SOURCES, MAX_NOTE_LENGTH } from 'spillgate/internal';
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

export const backend = z.strictObject({
  origin: z.string(),
  healthy: z.boolean(),
  inFlight: count(),
  lastError: z.string().optional(),
});

export const node = z.strictObject({
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

const configDifferences = z
  .strictObject({
    total: count(),
    items: z
      .array(
        z.strictObject({
          path: z.string(),
          before: z.unknown().optional(),
          after: z.unknown().optional(),
        }),
      )
      .meta({ description: 'At most 200. Without `before` it is new, without `after` it is gone.' }),
  })
  .meta({ description: 'By the paths of settings; secrets are masked.' });

const pastReload = z.strictObject({ ...reloadResult, at: time(), differences: configDifferences.optional() });

export const configText = z
  .strictObject({ text: z.string().max(1_048_576).optional().meta({ description: 'The text of a file.' }) })
  .optional();

export const checkedConfig = z.strictObject({
  accepted: z.boolean().meta({ description: 'A reload would take it into use.' }),
  problems: z.array(configProblem),
  differences: configDifferences,
});

export const liveConfig = z.strictObject({
  generation: z.int().min(1),
  loadedAt: time(),
  lastReload: pastReload.optional(),
  reloads: z.array(pastReload).meta({ description: 'The latest first.' }),
  config: z.record(z.string(), z.unknown()).meta({ description: 'As a file would say it, without secrets.' }),
  settings: z
    .array(z.strictObject({ path: z.string(), value: z.unknown(), origin }))
    .meta({ description: 'Every value, and where it came from.' }),
});

const outcomes = z.strictObject({
  forwarded: count(),
  answered: count(),
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

const overrideNumbers = numbers
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

const about = {
  setAt: time(),
  expiresAt: time().optional().meta({ description: 'When it ends by itself.' }),
  by: z.string().optional(),
  note: z.string().optional(),
};

const overrideSetting = z.strictObject({ policy: z.string(), key: z.string(), numbers, ...about });
const blockSetting = z.strictObject({ policy: z.string(), key: z.string(), ...about });

const counted = {
  policy: z.string(),
  key: z.string().meta({ description: 'As it is counted: a secret as its hash, an address as its network.' }),
};

const keyName = {
  ...counted,
  namesNobody: z
    .string()
    .optional()
    .meta({ description: 'Why no request through the gateway can have this key.' }),
};

export const keyState = z.strictObject({
  ...keyName,
  allowed: z.boolean().meta({ description: 'Whether a request of this cost would be admitted now.' }),
  limit: z.int(),
  remaining: z.int(),
  retryAfterMs: z.number().min(0).nullable().meta({ description: 'Null: it can never fit.' }),
  resetAfterMs: z.number().min(0),
  delayMs: z.number().min(0),
  source: z.enum(DECISION_SOURCES),
  degraded: z.boolean(),
  override: overrideNumbers
    .nullable()
    .meta({ description: 'Numbers that it was given at run time; null: none.' }),
  setting: overrideSetting.nullable().meta({ description: 'The same with who, why, and until when.' }),
  block: blockSetting
    .nullable()
    .meta({ description: 'Until when it is denied everything; null: it is not.' }),
  penalty: z
    .strictObject({ endsInMs: z.number().min(0), reason: z.string() })
    .nullable()
    .meta({ description: 'The block that the policy itself began, for how long and why; null: none.' }),
});

export const keyStates = z.strictObject({
  states: z.array(keyState),
  more: count().meta({ description: 'How many policies are left out: 200 are shown.' }),
});

export const forgotten = z.strictObject({
  ...keyName,
  forgotten: z.literal(true),
  block: blockSetting
    .nullable()
    .meta({ description: 'The block that an operator set, which stays; null: there is none.' }),
});

const keptIn = z.enum(['redis', 'file', 'memory']).meta({
  description:
    'Where overrides and blocks live: in Redis for all gateways, in a file of this one, or only as long as it runs.',
});

export const overridden = z.strictObject({
  ...keyName,
  limit: z.int().min(1).meta({ description: 'The largest cost of this key now.' }),
  override: overrideNumbers.nullable(),
  setting: overrideSetting.nullable(),
  keptIn,
});

export const blockedKey = z.strictObject({ ...keyName, block: blockSetting.nullable(), keptIn });

const note = () => z.string().min(1).max(MAX_NOTE_LENGTH);
const circumstances = {
  expires_in: durationText()
    .optional()
    .meta({ description: 'How long it holds, at least a second; without it until somebody removes it.' }),
  by: note().optional().meta({ description: 'Who did it.' }),
  note: note().optional().meta({ description: 'Why.' }),
};

export const overrideBody = z
  .strictObject({ ...numbers.shape, ...circumstances })
  .refine((given) => Object.keys(given).some((name) => name in numbers.shape), {
    error: 'has no number; expected at least one, such as {"average": 100}',
  })
  .meta({
    description:
      'Numbers for this key, named as in the configuration; those left out stay the same. Beside them how long they hold, who gave them and why.',
  });

export const blockBody = z.strictObject(circumstances).optional();

function listed(item: z.ZodType): z.ZodType {
  return z.strictObject({
    total: count().meta({ description: 'How many there are; the list has at most `limit` of them.' }),
    items: z.array(item),
  });
}

export const settingsList = z.strictObject({
  keptIn,
  configured: listed(z.strictObject({ ...counted, numbers })).meta({ description: 'In the configuration.' }),
  overrides: listed(overrideSetting).meta({ description: 'Given at run time; these win.' }),
  blocks: listed(blockSetting),
});

const activeKey = z.strictObject({
  ...counted,
  count: count(),
  error: count().meta({ description: 'The count is at most so much too high.' }),
  state: keyState.nullable().meta({ description: 'Null: this gateway has no such policy.' }),
});

export const activeKeys = z.strictObject({
  instances: count().meta({ description: 'How many were asked.' }),
  windowSeconds: z.number().min(0),
  busiest: z.array(activeKey),
  denied: z.array(activeKey),
});

const sums = z.strictObject({
  allowed: count(),
  denied: count(),
  undecided: count().meta({ description: 'Those of both that the failure policy made.' }),
});

export const fleetInstances = z.strictObject({
  id: z.string().nullable().meta({ description: 'Of the instance that answers.' }),
  decisions: sums.meta({ description: 'Of all instances since each has started.' }),
  configurations: z
    .array(z.string())
    .meta({ description: 'Their different configurations, as hashes; one if all have the same.' }),
  instances: z.array(
    z.strictObject({
      id: z.string(),
      name: z.string().meta({ description: 'Of its machine.' }),
      kind: z.enum(['gateway', 'library']),
      version: z.string(),
      startedAt: time(),
      publishedAt: time(),
      configHash: z.string(),
      decisions: sums,
      policies: z.array(z.string()),
      more: z.record(z.string(), z.unknown()).meta({ description: 'Of a gateway its phase and traffic.' }),
    }),
  ),
});

const listLength = (most: number) =>
  z
    .string()
    .regex(/^\d{1,4}$/, {
      error: ({ input }) => `is ${shown(input)}; expected a whole number up to ${most}, such as limit=20`,
    })
    .refine((text) => Number(text) <= most, {
      error: ({ input }) => `is ${shown(input)}; expected at most ${most}`,
    })
    .optional()
    .meta({ description: `How many to list, at most ${most}.` });

const onlyPolicy = () => z.string().max(64).optional().meta({ description: 'Only those of this policy.' });

export const keysQuery = z.object({
  limit: listLength(100),
  policy: onlyPolicy(),
  contains: z
    .string()
    .max(512)
    .optional()
    .meta({ description: 'Only keys with this text in them, in any case; a secret finds its hash.' }),
});

export const overridesQuery = z.object({ limit: listLength(9999), policy: onlyPolicy() });

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

export type CheckedConfigText = z.infer<typeof checkedConfig>;
export type ConfigShown = z.infer<typeof liveConfig>;
export type PolicyList = z.infer<typeof policies>;
export type KeyStates = z.infer<typeof keyStates>;
export type KeyState = z.infer<typeof keyState>;
export type ActiveKeys = z.infer<typeof activeKeys>;
export type FleetInstances = z.infer<typeof fleetInstances>;

import { z } from 'zod';

const policyStory = z.strictObject({
  policy: z.string(),
  key: z.string().meta({ description: 'Whom it counts. Secrets are hashed.' }),
  algorithm: z.string().optional().meta({ description: 'Undefined for policies of the external service.' }),
  shadow: z.boolean().meta({ description: 'It is only tried out.' }),
  allowed: z.boolean(),
  cost: z.number(),
  limit: z.number(),
  before: z.number().meta({ description: 'What was left when the request came.' }),
  after: z
    .number()
    .meta({ description: 'What is left behind it. The same where it was denied: that costs nothing.' }),
  retryAfterMs: z.number().nullable().meta({ description: 'Null: no wait helps.' }),
  penalty: z.string().optional().meta({ description: 'Why the policy has blocked the key, where it has.' }),
  resetAfterMs: z.number(),
  fullAgainAt: z.iso.datetime(),
});

/** Why a request was admitted or not, or would be. */
export const explanation = z.strictObject({
  summary: z.string().meta({ description: 'All of it in a sentence or two.' }),
  recorded: z.boolean().meta({ description: 'It happened; else it was made up, and nothing was counted.' }),
  at: z.iso.datetime(),
  outcome: z.enum(['allowed', 'denied', 'wouldDeny']),
  status: z.int().optional().meta({ description: 'Of the answer, where the gateway gives it itself.' }),
  reason: z.string(),
  rejected: z.string().optional().meta({
    description:
      'With the reason `unidentified`: what was not accepted and why, such as `apiKey expired`. The client is not told.',
  }),
  request: z.strictObject({
    id: z.string(),
    method: z.string(),
    scheme: z.string(),
    host: z.string(),
    path: z.string(),
  }),
  client: z.strictObject({
    address: z.string().optional(),
    countedAs: z.string().optional(),
    because: z.string().meta({ description: 'Who or which header said so.' }),
  }),
  rule: z.string().optional().meta({ description: 'Left out if no rule matches.' }),
  rulesAsked: z.boolean().meta({ description: 'False: it was refused or answered before the rules.' }),
  rules: z.array(z.strictObject({ rule: z.string(), matched: z.boolean(), because: z.string() })),
  keys: z.array(z.string()),
  policies: z.array(policyStory),
  settlement: z
    .strictObject({
      by: z.string().meta({ description: 'What the final cost comes from, as `settle` of the rule says.' }),
      reserved: z.number().meta({ description: 'What was charged so far, before the request had ended.' }),
      cost: z.number().optional().meta({ description: 'What it has cost; left out while it is under way.' }),
      estimated: z.boolean().optional().meta({ description: 'Not all of that is known: some is estimated.' }),
    })
    .optional()
    .meta({ description: 'Left out if the cost was final from the beginning.' }),
  decidedBy: z.strictObject({
    instance: z.string(),
    store: z.enum(['memory', 'redis']),
    source: z.string().optional().meta({ description: 'Left out if no policy was asked.' }),
    degraded: z.boolean(),
    cause: z.string().optional(),
    clock: z.string(),
    generation: z.int().optional(),
    loadedAt: z.iso.datetime().optional(),
  }),
  toBeAdmitted: z.array(z.string()).meta({ description: 'What would have to change.' }),
});

export type Explanation = z.infer<typeof explanation>;
export type PolicyStory = z.infer<typeof policyStory>;

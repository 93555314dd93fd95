import { z } from 'zod';
import { shown } from '../config/shown.ts';
import { explanation } from '../rules/explain/explanation.ts';
import { defineEndpoint, json, type Endpoint } from './endpoint.ts';
import { AdminProblem } from './problems.ts';

const MAX_RECENT = 200;
const MAX_TEXT = 8192;

const text = (max: number) => z.string().max(max);

const recentDecision = z.strictObject({
  number: z.int(),
  id: z.string(),
  at: z.iso.datetime(),
  outcome: z.enum(['allowed', 'denied', 'wouldDeny']),
  reason: z.string(),
  method: z.string(),
  path: z.string(),
  client: z.string().optional(),
  addressOddity: z.string().optional().meta({
    description:
      'What was odd about who asked, such as `untrustedHeader`: a header named a client, but its sender is not in `trusted_proxies`.',
  }),
  rule: z.string().optional(),
  policy: z.string().optional(),
  keys: z.array(z.string()),
  retryAfterMs: z.number().optional(),
});

const recentDecisions = z.strictObject({ decisions: z.array(recentDecision) });

export type RecentDecisions = z.infer<typeof recentDecisions>;

const recentQuery = z.object({
  outcome: z.enum(['denied']).optional().meta({ description: 'Without those that were simply admitted.' }),
  key: text(1024)
    .optional()
    .meta({ description: 'Only those of this key, as a list of decisions shows it.' }),
  limit: z
    .string()
    .regex(/^\d{1,3}$/, {
      error: ({ input }) => `is ${shown(input)}; expected a whole number, such as limit=50`,
    })
    .optional()
    .meta({ description: `How many; 50 when left out, ${MAX_RECENT} at most.` }),
});

const madeUp = z
  .strictObject({
    method: text(32).min(1).default('GET'),
    path: text(MAX_TEXT).min(1).meta({ description: 'With its query.' }),
    host: text(255).optional().meta({ description: '`localhost` when left out.' }),
    client: text(64)
      .optional()
      .meta({ description: 'The address of the connection; `127.0.0.1` when left out.' }),
    headers: z
      .array(z.tuple([text(256).min(1), text(MAX_TEXT)]))
      .max(100)
      .optional()
      .meta({ description: 'Names and values.' }),
  })
  .meta({ description: 'A request that nobody sends.' });

/** Why requests were admitted or not. */
export const EXPLAIN_ENDPOINTS: readonly Endpoint[] = [
  defineEndpoint({
    id: 'decisions',
    method: 'GET',
    path: '/v1/decisions',
    summary:
      'The latest decisions of this instance, the latest first: 2,048 denied ones, of which it keeps at most 100 per key and second, and 1,024 of the others, at most 50 per second.',
    access: 'token',
    query: recentQuery,
    answers: { 200: json('The decisions.', recentDecisions) },
    async handle({ query: { outcome, key, limit = '50' } }, { control }) {
      const decisions = await control.stories.recent({
        outcome,
        // An API key may be asked for by its secret.
        key: key === undefined ? undefined : (control.apiKeys().ownerOf(key) ?? key),
        limit: Math.min(MAX_RECENT, Number(limit)),
      });
      return { status: 200, value: { decisions } };
    },
  }),
  defineEndpoint({
    id: 'explainDecision',
    method: 'GET',
    path: '/v1/explain/{id}',
    summary: 'Why the request with this id was admitted or not, as long as the instance remembers it.',
    access: 'token',
    answers: { 200: json('Its story.', explanation) },
    problems: ['UNKNOWN_REQUEST'],
    async handle({ parameters: { id = '' } }, { control }) {
      const story = await control.stories.explainKept(id);
      if (story !== undefined) return { status: 200, value: story };
      throw new AdminProblem(
        'UNKNOWN_REQUEST',
        `The id is ${shown(id)}; expected one of a recent request of this instance: it keeps the last 2,048 that were denied, and some of the others.`,
      );
    },
  }),
  defineEndpoint({
    id: 'explain',
    method: 'POST',
    path: '/v1/explain',
    effect: 'none',
    summary: 'What would happen to a request now, and why. Nothing is sent or counted.',
    access: 'token',
    body: madeUp,
    answers: { 200: json('Its story.', explanation) },
    handle: async ({ body }, { control }) => ({
      status: 200,
      value: await control.stories.explainMadeUp(body),
    }),
  }),
];

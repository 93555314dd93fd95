import { z } from 'zod';
import { duration, headerName, type DeepReadonly } from './fields.ts';

/** No request costs more. */
const MAX_COST = 1_000_000_000;

const most = () =>
  z.int().min(1).max(MAX_COST).default(1_000_000).meta({ description: 'The most that one request costs.' });

const headerCost = z.strictObject({
  type: z.literal('header').meta({
    description:
      'Where the cost comes from: a header of the request, the size of its body, or an estimate of the tokens of a language model. A number is the cost of every request.',
  }),
  header_name: headerName().meta({
    description:
      'The header with the cost, an integer. Anything else, or more than `max`, gets a 400. Have a proxy in front set it: clients could name their own price.',
  }),
  default: z.int().min(1).max(MAX_COST).default(1).meta({
    description:
      'The cost of a request that does not say it: without the header, or with a body of unknown length.',
  }),
  max: most(),
});

const requestBytesCost = z.strictObject({
  type: z.literal('requestBytes'),
  default: z.int().min(1).max(MAX_COST).default(1024),
  max: most(),
});

const llmTokensCost = z.strictObject({
  type: z.literal('llmTokens'),
  output_tokens: z.int().min(0).max(10_000_000).default(1000).meta({
    description:
      'The answer is taken to have so many tokens, where the request does not bound it itself (`max_tokens`, `max_completion_tokens`, `max_output_tokens`).',
  }),
  max: most(),
});

const costSource = z.discriminatedUnion('type', [headerCost, requestBytesCost, llmTokensCost]);

/** What a request spends, as far as that is known before it is answered. */
export function cost(least: 0 | 1) {
  return z.union([z.int().min(least).max(1_000_000), costSource]);
}

const within = () =>
  duration({ min: 1000, max: 86_400_000 }).prefault('10m').meta({
    description:
      'How long a request may take to be settled. Behind that, nothing of its cost is given back; what it used beyond is charged.',
  });

const settleByHeader = z.strictObject({
  type: z.literal('header').meta({
    description:
      'Where the final cost comes from: a header of the response, the bytes of the request or the response, or the token usage that a language model reports.',
  }),
  header_name: headerName().meta({
    description: 'The header of the response with the cost, an integer. Without it, `cost` stands.',
  }),
  max: most(),
  within: within(),
});

const settleByTokens = z.strictObject({
  type: z.literal('llmTokens'),
  count: z.enum(['total', 'input', 'output']).default('total').meta({
    description: 'Which tokens count: of the prompt (`input`), of the answer (`output`), or both.',
  }),
  cached_input: z.enum(['counted', 'free']).default('counted').meta({
    description: 'Whether tokens of the prompt count that the provider had in its cache.',
  }),
  cut_off: z.boolean().default(false).meta({
    description:
      'Ends a stream whose budget is spent with an error event of its protocol. The backend is then asked for streams without compression.',
  }),
  within: within(),
});

/** What a request has spent, when it has been answered. */
export const settle = z.discriminatedUnion('type', [
  settleByHeader,
  z.strictObject({ type: z.literal('requestBytes'), within: within() }),
  z.strictObject({ type: z.literal('responseBytes'), within: within() }),
  settleByTokens,
]);

export type CostConfig = DeepReadonly<z.output<ReturnType<typeof cost>>>;
export type SettleConfig = DeepReadonly<z.output<typeof settle>>;

import { z } from 'zod';
import { pathPatternComplaint } from '../path-pattern.ts';
import { shown } from '../shown.ts';
import { answer, MAX_ANSWERS } from './answers.ts';
import { cost, settle } from './cost.ts';
import { headerName, list, network, plainText } from './fields.ts';
import { removedHeaders, rewrite, setHeaders } from './forwarding.ts';
import { keyStrategy } from './key.ts';

const METHOD = /^[A-Z][A-Z-]{0,31}$/;
const HOST = /^(?:\*\.)?[a-z\d](?:[a-z\d.-]*[a-z\d])?$/;
/** As the library names policies. */
const NAME = /^[A-Za-z0-9_.-]{1,64}$/;

/** A name of a policy or a rule. */
export function name() {
  return z.string().regex(NAME, { error: "must have 1 to 64 letters, digits, '_', '-' or '.'" });
}

export const method = z.string().superRefine((value, context) => {
  if (METHOD.test(value)) return;
  const upper = value.toUpperCase();
  const advice = METHOD.test(upper) ? `write "${upper}"` : 'expected a method, such as "POST"';
  context.addIssue({ code: 'custom', message: `is ${shown(value)}; ${advice}` });
});

const host = z.string().superRefine((value, context) => {
  if (HOST.test(value)) return;
  context.addIssue({
    code: 'custom',
    message: `is ${shown(value)}; expected a host in lower case without a port, such as "api.example.com" or "*.example.com"`,
  });
});

const path = z.string().superRefine((value, context) => {
  const message = pathPatternComplaint(value);
  if (message !== undefined) context.addIssue({ code: 'custom', message });
});

/** One text, or a list of them; the program always gets a list. */
function oneOrMore(element: z.ZodString, max = 64) {
  const single = z.codec(z.string(), z.array(element).length(1), {
    decode: (value) => [value],
    encode: ([value = '']) => value,
  });
  return z.union([single, z.array(element).min(1).max(max)]);
}

export const match = z.strictObject({
  host: oneOrMore(host)
    .optional()
    .meta({ kind: 'text or list', description: 'Hosts: `api.example.com`, `*.example.com`.' }),
  path: oneOrMore(path).optional().meta({
    kind: 'text or list',
    description:
      'Paths: `/login`, `/users/{id}` (a parameter is one segment), `/static/*` (one segment), `/files/**` (everything below).',
  }),
  lenient_path: z.boolean().optional().meta({
    description:
      'Matches paths as lenient frameworks do: `/LOGIN`, `/login/` and `/login;x` match `/login` too.',
  }),
  method: oneOrMore(method).optional().meta({ kind: 'text or list', description: 'Methods, in upper case.' }),
  header: z
    .record(headerName(), z.string().max(1024))
    .optional()
    .meta({ description: 'Headers and the exact value each must have; `*` is any value.' }),
});

/** Who passes without being counted, or not at all. */
export function keyList() {
  return z.strictObject({
    cidrs: list(network(), 10_000).default([]).meta({ description: 'Client addresses and ranges.' }),
    keys: list(plainText(), 10_000).default([]).meta({
      description:
        'Keys. Under `rate_limit` they belong to `rate_limit.key_strategy`, whatever key a rule has; under a rule they belong to its key.',
    }),
  });
}

/** A policy's name, or the policy with a key of its own. */
const chosenPolicy = z.union([
  z.codec(
    z.string(),
    z.strictObject({
      policy: name(),
      key: z.undefined().optional(),
      cost: z.undefined().optional(),
      shadow: z.literal(false),
    }),
    {
      decode: (policy) => ({ policy, shadow: false as const }),
      encode: ({ policy }) => policy,
    },
  ),
  z.strictObject({
    policy: name().meta({ description: 'The name of the policy.' }),
    key: keyStrategy()
      .optional()
      .meta({ kind: 'key', description: 'Who is counted by it. Unset: the key of the rule.' }),
    cost: cost(1).optional().meta({
      kind: 'integer 1 to 1000000, or cost',
      description:
        'What a request spends of it, whatever it costs elsewhere: the 1 of a policy for requests, beside one for tokens. It is not settled. Unset: the cost of the rule.',
    }),
    shadow: z.boolean().default(false).meta({
      description:
        'Decides, counts and reports, but refuses nobody; the other policies of the rule are enforced.',
    }),
  }),
]);

export const rule = z.strictObject({
  name: name().meta({ description: 'Its name in logs and metrics.' }),
  match: match
    .prefault({})
    .meta({ description: 'Which requests: all that is given has to fit. Empty: every request.' }),
  policies: list(chosenPolicy, 32).default([]).meta({
    kind: 'list',
    description:
      'The policies that these requests must pass, all or nothing: names, or `{ policy, key, cost, shadow }`. Empty: not limited.',
  }),
  key: keyStrategy().optional().meta({
    kind: 'key',
    description: 'Who is counted by policies without their own key. Unset: `rate_limit.key_strategy`.',
  }),
  cost: cost(0).default(1).meta({
    kind: 'integer 0 to 1000000, or cost',
    description:
      'What one request spends, or where that stands. 0 decides without spending. With `settle` it is an estimate.',
  }),
  settle: settle.optional().meta({
    kind: 'settle',
    description:
      'What one request has spent, known only afterwards: `cost` is charged before, and corrected when the request has ended. Unset: `cost` is final.',
  }),
  shadow: z
    .boolean()
    .default(false)
    .meta({ description: 'Its policies decide, count and report, but every request passes.' }),
  backend: name().optional().meta({
    description: 'The backend of these requests, one of `backends`. Unset: `backend`.',
  }),
  rewrite: rewrite.prefault({}).meta({ description: 'The path that the backend gets.' }),
  set_request_headers: setHeaders().meta({
    description: 'Headers that the backend gets, by name, beside those of `backend.set_request_headers`.',
  }),
  remove_request_headers: removedHeaders().meta({
    description: 'Headers of the client that the backend does not get, beside those of `backend`.',
  }),
  answers: list(answer, MAX_ANSWERS)
    .default([])
    .meta({ description: 'Answers to its requests, before those of `server.answers`.' }),
  allow: keyList().prefault({}).meta({ description: 'Who passes without being counted.' }),
  deny: keyList().prefault({}).meta({ description: 'Who gets a 403. Stronger than `allow`.' }),
});

import { LimiterError, type Decision, type Limit, type Limiter, type Verdict } from 'spillgate';
import { DECISION_SOURCES } from 'spillgate/internal';
import { z } from 'zod';
import { inSettings } from '../../config/problem.ts';
import { shown } from '../../config/shown.ts';
import type { ServiceSnapshot } from '../snapshot.ts';
import {
  accept,
  jsonReply,
  readJsonBody,
  ServiceProblem,
  type CallReply,
  type ServiceEndpoint,
} from './call.ts';

const MAX_CHECKS = 1000;
const MAX_LIMITS = 32;
const MAX_KEY_LENGTH = 4096;

const policyName = z.string().min(1).max(64).meta({ description: 'A policy of the configuration.' });
const keyText = z
  .string()
  .min(1)
  .max(MAX_KEY_LENGTH)
  .meta({ description: 'Who is counted, as your application knows them.' });

const limitFields = {
  policy: policyName.optional(),
  key: keyText.optional(),
  limits: z
    .array(z.strictObject({ policy: policyName, key: keyText }))
    .min(1)
    .max(MAX_LIMITS)
    .optional()
    .meta({ description: 'Instead of `policy` and `key`: several limits, all charged or none.' }),
};

const check = z.strictObject({
  ...limitFields,
  cost: z
    .int()
    .min(0)
    .max(Number.MAX_SAFE_INTEGER)
    .optional()
    .meta({ description: 'What it spends, an integer. Default: 1. 0 decides without spending.' }),
});
const checks = z.strictObject({
  checks: z.array(check).min(1).max(MAX_CHECKS).meta({ description: 'Each is decided on its own.' }),
});
const forgets = z.strictObject(limitFields);

type AskedLimits = z.output<typeof forgets>;
type AskedCheck = z.output<typeof check>;

const verdictFields = {
  policy: z.string().meta({ description: 'The policy that denied, else the one with the least left.' }),
  allowed: z.boolean(),
  limit: z.int().meta({ description: 'The largest cost that can ever be admitted at once.' }),
  remaining: z.int().meta({ description: 'The largest cost that would still be admitted now.' }),
  retryAfterMs: z
    .number()
    .nullable()
    .meta({ description: 'How long to wait; 0 if admitted, null if this cost never fits.' }),
  resetAfterMs: z.number().meta({ description: 'When the key is as if never used.' }),
  delayMs: z.number().meta({ description: 'How long an admitted request has to wait (leaky bucket).' }),
};
const decisionSchema = z.strictObject({
  ...verdictFields,
  source: z.enum(DECISION_SOURCES),
  degraded: z.boolean().meta({ description: 'The store could not decide; `source` did in its place.' }),
  verdicts: z
    .array(z.strictObject(verdictFields))
    .optional()
    .meta({ description: 'One per limit, if there are several.' }),
});
const decided = z.union([decisionSchema, z.strictObject({ decisions: z.array(decisionSchema) })]);

const EXAMPLE = '{"policy": "api", "key": "ann"}';

type DecidingCall = 'check' | 'peek';

function decidingEndpoint(operation: DecidingCall, summary: string): ServiceEndpoint {
  return {
    id: operation,
    method: 'POST',
    path: `/v1/${operation}`,
    summary,
    access: 'token',
    body: z.union([check, checks]),
    answers: {
      200: {
        description: 'The decision, or one per check in their order. A denial is a decision.',
        schema: decided,
      },
    },
    problems: ['UNKNOWN_POLICY'],
    async handle({ request }, { snapshot }) {
      const body = await readJsonBody(request, EXAMPLE);
      if (!isBatch(body)) {
        const asked = bind(accept(check, body), snapshot, '');
        return decisionsReply([await decide(operation, asked, snapshot)], ([only]) => only);
      }
      const { checks: list } = accept(checks, body);
      // All of them before the first is counted: a batch with a mistake counts nothing.
      const bound = list.map((each, at) => bind(each, snapshot, `checks.${at}`));
      return decisionsReply(await decideAll(operation, bound, snapshot), (decisions) => ({ decisions }));
    },
  };
}

export const CHECK_ENDPOINTS: readonly ServiceEndpoint[] = [
  decidingEndpoint('check', 'Decides and spends.'),
  decidingEndpoint('peek', 'Decides as a check would, and spends nothing.'),
  {
    id: 'forget',
    method: 'POST',
    path: '/v1/forget',
    summary: 'Makes keys as if they had never been used. Idempotent.',
    access: 'token',
    body: forgets,
    answers: {
      200: { description: 'They are.', schema: z.strictObject({ forgotten: z.int() }) },
    },
    problems: ['UNKNOWN_POLICY', 'STORE_UNAVAILABLE'],
    async handle({ request }, { snapshot }) {
      const { limits } = bind(accept(forgets, await readJsonBody(request, EXAMPLE)), snapshot, '');
      await forget(snapshot.limiter, limits);
      return jsonReply({ forgotten: limits.length });
    },
  },
];

function isBatch(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'checks' in body;
}

/** A check whose policies exist. */
interface BoundCheck {
  readonly limits: readonly Limit[];
  readonly cost: number;
}

/** `place`: where it stands in a batch, or empty. */
function bind(
  asked: AskedLimits & Pick<AskedCheck, 'cost'>,
  snapshot: ServiceSnapshot,
  place: string,
): BoundCheck {
  const { policy, key, limits, cost = 1 } = asked;
  const at = place === '' ? '' : `${place}: `;
  if (limits === undefined) {
    if (policy === undefined || key === undefined) {
      throw invalid(
        `${at}${policy === undefined ? 'policy' : 'key'} is missing; expected ${EXAMPLE}, or limits.`,
      );
    }
    return { limits: [limitOf({ policy, key }, snapshot, at)], cost };
  }
  if (policy !== undefined || key !== undefined) {
    throw invalid(`${at}limits stands beside policy or key; expected one of the two forms.`);
  }
  const bound = limits.map((each) => limitOf(each, snapshot, at));
  const twice = bound.find((one, index) => bound.findIndex((other) => isSame(one, other)) < index);
  if (twice !== undefined) {
    throw invalid(
      `${at}limits has the policy ${shown(twice.policy.name)} with one key twice; expected it once, with a higher cost.`,
    );
  }
  return { limits: bound, cost };
}

function isSame(one: Limit, other: Limit): boolean {
  return one.policy === other.policy && one.key === other.key;
}

function limitOf(
  { policy, key }: { readonly policy: string; readonly key: string },
  snapshot: ServiceSnapshot,
  at: string,
): Limit {
  const limit = snapshot.bind(policy, key);
  if (limit !== undefined) return limit;
  throw new ServiceProblem(
    'UNKNOWN_POLICY',
    `${at}The policy is ${shown(policy)}; expected one of ${namesOf([...snapshot.policies.keys()])}.`,
  );
}

const SHOWN_NAMES = 20;

function namesOf(names: readonly string[]): string {
  if (names.length === 0) return 'those of the configuration, which has none';
  const more = names.length > SHOWN_NAMES ? ` and ${names.length - SHOWN_NAMES} more` : '';
  return names.slice(0, SHOWN_NAMES).join(', ') + more;
}

function invalid(message: string): ServiceProblem {
  return new ServiceProblem('INVALID_REQUEST', message);
}

async function decide(
  operation: DecidingCall,
  { limits, cost }: BoundCheck,
  { limiter }: ServiceSnapshot,
): Promise<Decision> {
  if (operation === 'check') requireNoSlots(limits);
  return limiter[operation](limits, { cost });
}

/** In memory one after the other without a promise; with Redis all at once, so that they share script calls. */
async function decideAll(
  operation: DecidingCall,
  bound: readonly BoundCheck[],
  snapshot: ServiceSnapshot,
): Promise<readonly Decision[]> {
  const { config, limiter } = snapshot;
  if (operation === 'check' && config.redis === undefined) {
    for (const { limits } of bound) requireNoSlots(limits);
    return bound.map(({ limits, cost }) => limiter.checkSync(limits, { cost }));
  }
  return Promise.all(bound.map(async (each) => decide(operation, each, snapshot)));
}

/** Who asks does not say when the work has ended. */
function requireNoSlots(limits: readonly Limit[]): void {
  const held = limits.find(({ policy }) => policy.algorithm === 'concurrency');
  if (held === undefined) return;
  throw invalid(
    `The policy ${shown(held.policy.name)} limits concurrency, and a check cannot tell when work has ended; expected another policy, or /v1/peek.`,
  );
}

async function forget(limiter: Limiter, limits: readonly Limit[]): Promise<void> {
  try {
    await limiter.forget(limits);
  } catch (failure) {
    if (!(failure instanceof LimiterError)) throw failure;
    throw new ServiceProblem(
      'STORE_UNAVAILABLE',
      `${inSettings(failure.message)} Nothing is certain about these keys: try again.`,
    );
  }
}

function decisionsReply(
  decisions: readonly Decision[],
  bodyOf: (decisions: readonly object[]) => unknown,
): CallReply {
  const denied = decisions.filter(({ allowed }) => !allowed).length;
  return { ...jsonReply(bodyOf(decisions.map(decisionJson))), decided: { checks: decisions.length, denied } };
}

// Spelled out rather than spread: this runs for every decision of a batch, and a spread takes a third of its time.
function decisionJson(decision: Decision): object {
  const { verdicts, retryAfterMs } = decision;
  return {
    policy: decision.policy,
    allowed: decision.allowed,
    limit: decision.limit,
    remaining: decision.remaining,
    retryAfterMs: retryAfterMs === Infinity ? null : retryAfterMs,
    resetAfterMs: decision.resetAfterMs,
    delayMs: decision.delayMs,
    source: decision.source,
    degraded: decision.degraded,
    // JSON leaves out what is undefined.
    verdicts: verdicts.length === 1 ? undefined : verdicts.map(verdictJson),
  };
}

function verdictJson({
  policy,
  allowed,
  limit,
  remaining,
  retryAfterMs,
  resetAfterMs,
  delayMs,
}: Verdict): object {
  return {
    policy,
    allowed,
    limit,
    remaining,
    retryAfterMs: retryAfterMs === Infinity ? null : retryAfterMs,
    resetAfterMs,
    delayMs,
  };
}

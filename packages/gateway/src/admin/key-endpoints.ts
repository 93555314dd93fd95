import { LimiterError, type Decision, type Limit } from 'spillgate';
import { inSettings } from '../config/problem.ts';
import { operatorsKey } from '../rules/key-reader.ts';
import { defineEndpoint, json, type AdminParts, type Endpoint } from './endpoint.ts';
import { policyOf } from './overrides.ts';
import { AdminProblem } from './problems.ts';
import { costQuery, forgotten, keyState, overridden, overrideNumbers } from './schemas.ts';

type KeyPath = Readonly<Record<string, string>>;

const KEY_PATH = '/v1/keys/{policy}/{key}';

/** What one key has spent, and may spend. */
export const KEY_ENDPOINTS: readonly Endpoint[] = [
  defineEndpoint({
    id: 'peek',
    method: 'GET',
    path: KEY_PATH,
    summary: 'The state of a key under a policy. Spends nothing.',
    access: 'token',
    query: costQuery,
    answers: { 200: json('Its state.', keyState) },
    problems: ['UNKNOWN_POLICY'],
    async handle({ parameters, query: { cost = '1' } }, parts) {
      const limit = limitOf(parameters, parts);
      const decision = await parts.control.limiter().peek(limit, { cost: Number(cost) });
      return { status: 200, value: stateOf(decision, limit, parts) };
    },
  }),
  defineEndpoint({
    id: 'forget',
    method: 'DELETE',
    path: KEY_PATH,
    summary: 'Resets a key, as if it had never been used. Idempotent.',
    access: 'token',
    answers: { 200: json('It is reset.', forgotten) },
    problems: ['UNKNOWN_POLICY', 'STORE_UNAVAILABLE'],
    async handle({ parameters }, parts) {
      const limit = limitOf(parameters, parts);
      await forget(limit, parts);
      return { status: 200, value: { policy: limit.policy.name, key: limit.key, forgotten: true } };
    },
  }),
  defineEndpoint({
    id: 'override',
    method: 'PUT',
    path: `${KEY_PATH}/override`,
    summary:
      'Gives a key other numbers until the gateway stops; reloads keep them. What it has spent stays spent. Idempotent.',
    access: 'token',
    body: overrideNumbers,
    answers: { 200: json('These are its numbers now.', overridden) },
    problems: ['UNKNOWN_POLICY', 'INVALID_NUMBERS', 'TOO_MANY_OVERRIDES'],
    handle({ parameters, body }, parts) {
      const { policy, key } = limitOf(parameters, parts);
      parts.overrides.set({ policy: policy.name, key, numbers: body });
      return { status: 200, value: overriddenKey(parameters, parts) };
    },
  }),
  defineEndpoint({
    id: 'removeOverride',
    method: 'DELETE',
    path: `${KEY_PATH}/override`,
    summary: "Gives a key the configuration's numbers again. Idempotent.",
    access: 'token',
    answers: { 200: json("It has the configuration's numbers.", overridden) },
    problems: ['UNKNOWN_POLICY'],
    handle({ parameters }, parts) {
      const { policy, key } = limitOf(parameters, parts);
      parts.overrides.remove(policy.name, key);
      return { status: 200, value: overriddenKey(parameters, parts) };
    },
  }),
];

function limitOf({ policy = '', key = '' }: KeyPath, { control }: AdminParts): Limit {
  const found = policyOf(control, policy);
  try {
    return found.for(operatorsKey(control.live().config, policy, key));
  } catch (failure) {
    if (failure instanceof LimiterError) throw new AdminProblem('INVALID_REQUEST', failure.message);
    throw failure;
  }
}

async function forget(limit: Limit, { control }: AdminParts): Promise<void> {
  try {
    await control.limiter().forget(limit);
  } catch (failure) {
    if (!(failure instanceof LimiterError)) throw failure;
    throw new AdminProblem(
      'STORE_UNAVAILABLE',
      `${inSettings(failure.message)} Nothing is certain about the key: try again.`,
    );
  }
}

function stateOf(
  decision: Decision,
  { policy: { name: policy }, key }: Limit,
  { overrides }: AdminParts,
): object {
  const { allowed, limit, remaining, retryAfterMs, resetAfterMs, delayMs, source, degraded } = decision;
  return {
    policy,
    key,
    allowed,
    limit,
    remaining,
    retryAfterMs: retryAfterMs === Infinity ? null : retryAfterMs,
    resetAfterMs,
    delayMs,
    source,
    degraded,
    override: overrides.find(policy, key) ?? null,
  };
}

function overriddenKey(parameters: KeyPath, parts: AdminParts): object {
  const { policy, key, limit } = limitOf(parameters, parts);
  return { policy: policy.name, key, limit, override: parts.overrides.find(policy.name, key) ?? null };
}

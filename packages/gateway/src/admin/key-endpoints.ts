import { LimiterError, parseDuration, type Decision, type Limit } from 'spillgate';
import type { KeySetting } from 'spillgate/internal';
import { namesNobody } from '../config/cross-field-checks/written-keys.ts';
import { inSettings } from '../config/problem.ts';
import { toSettings } from '../config/schema/policy.ts';
import { operatorsKey } from '../rules/policy-readers.ts';
import { loggable } from '../telemetry/logger.ts';
import { defineEndpoint, json, type AdminParts, type Endpoint, type RecordedChange } from './endpoint.ts';
import { acceptNumbers, dropSetting, keepSetting, policyOf, shownSetting } from './overrides.ts';
import { AdminProblem } from './problems.ts';
import {
  blockBody,
  blockedKey,
  costQuery,
  forgotten,
  keyState,
  keyStates,
  overrideBody,
  overridden,
} from './schemas.ts';

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
      return { status: 200, value: await peekedState(limit, Number(cost), parts) };
    },
  }),
  defineEndpoint({
    id: 'states',
    method: 'GET',
    path: '/v1/states/{key}',
    summary:
      'The state of a key under every policy, those that it has used first. A key that is a secret may be given plain or as its hash. Spends nothing.',
    access: 'token',
    answers: { 200: json('Its states.', keyStates) },
    async handle({ parameters: { key = '' } }, parts) {
      const names = [...parts.control.policies().keys()];
      const asked = names.slice(0, MAX_STATES);
      const states = await Promise.all(
        asked.map(async (policy) => peekedState(limitOf({ policy, key }, parts), 1, parts)),
      );
      const usedFirst = states.toSorted((one, other) => Number(isUsed(other)) - Number(isUsed(one)));
      return { status: 200, value: { states: usedFirst, more: names.length - asked.length } };
    },
  }),
  defineEndpoint({
    id: 'forget',
    method: 'DELETE',
    path: KEY_PATH,
    summary: 'Resets a key, as if it had never been used. Its override and its block stay. Idempotent.',
    access: 'token',
    answers: { 200: json('It is reset.', forgotten) },
    problems: ['UNKNOWN_POLICY', 'STORE_UNAVAILABLE'],
    async handle({ parameters }, parts) {
      const limit = limitOf(parameters, parts);
      const before = await spentOf(limit, parts);
      await forget(limit, parts);
      const change = { before, after: await spentOf(limit, parts) };
      const value = { ...nameOf(limit, parts), forgotten: true, block: shownBlock(limit, parts) };
      return { status: 200, value, change };
    },
  }),
  defineEndpoint({
    id: 'override',
    method: 'PUT',
    path: `${KEY_PATH}/override`,
    summary:
      'Gives a key other numbers: on every gateway that shares the Redis within a second, else on this one. What it has spent stays spent. Idempotent.',
    access: 'token',
    body: overrideBody,
    answers: { 200: json('These are its numbers now.', overridden) },
    problems: ['UNKNOWN_POLICY', 'INVALID_NUMBERS', 'TOO_MANY_OVERRIDES', 'STORE_UNAVAILABLE'],
    async handle({ parameters, body: { expires_in: expiresIn, by, note, ...numbers } }, parts) {
      const { policy, key } = limitOf(parameters, parts);
      const accepted = acceptNumbers(policy, numbers);
      const about = circumstances({ expiresIn, by, note });
      const setting = { kind: 'override', policy: policy.name, key, numbers: accepted, ...about } as const;
      const change = await recorded(parts, setting, async () => keepSetting(parts, setting));
      return { status: 200, value: overriddenKey(parameters, parts), change };
    },
  }),
  defineEndpoint({
    id: 'removeOverride',
    method: 'DELETE',
    path: `${KEY_PATH}/override`,
    summary: "Gives a key the configuration's numbers again. Idempotent.",
    access: 'token',
    answers: { 200: json("It has the configuration's numbers.", overridden) },
    problems: ['UNKNOWN_POLICY', 'STORE_UNAVAILABLE'],
    async handle({ parameters }, parts) {
      const { policy, key } = limitOf(parameters, parts);
      const id = { kind: 'override', policy: policy.name, key } as const;
      const change = await recorded(parts, id, async () => dropSetting(parts, id));
      return { status: 200, value: overriddenKey(parameters, parts), change };
    },
  }),
  defineEndpoint({
    id: 'block',
    method: 'PUT',
    path: `${KEY_PATH}/block`,
    summary:
      'Denies everything to a key until a time, or until somebody ends it: on every gateway that shares the Redis within a second, else on this one. Idempotent.',
    access: 'token',
    body: blockBody,
    answers: { 200: json('It is blocked.', blockedKey) },
    problems: ['UNKNOWN_POLICY', 'TOO_MANY_OVERRIDES', 'STORE_UNAVAILABLE'],
    async handle({ parameters, body }, parts) {
      const { expires_in: expiresIn, by, note } = body ?? {};
      const { policy, key } = limitOf(parameters, parts);
      const about = circumstances({ expiresIn, by, note });
      const setting = { kind: 'block', policy: policy.name, key, ...about } as const;
      const change = await recorded(parts, setting, async () => keepSetting(parts, setting));
      return { status: 200, value: blockOf(parameters, parts), change };
    },
  }),
  defineEndpoint({
    id: 'removeBlock',
    method: 'DELETE',
    path: `${KEY_PATH}/block`,
    summary: 'Ends the block of a key. Idempotent.',
    access: 'token',
    answers: { 200: json('It is not blocked.', blockedKey) },
    problems: ['UNKNOWN_POLICY', 'STORE_UNAVAILABLE'],
    async handle({ parameters }, parts) {
      const { policy, key } = limitOf(parameters, parts);
      const id = { kind: 'block', policy: policy.name, key } as const;
      const change = await recorded(parts, id, async () => dropSetting(parts, id));
      return { status: 200, value: blockOf(parameters, parts), change };
    },
  }),
];

const MAX_STATES = 200;

/** Of what the schema checks, that by which states are sorted. */
interface ShownState {
  readonly remaining: number;
  readonly limit: number;
  readonly override: object | null;
  readonly block: object | null;
  readonly penalty: object | null;
}

/** Whether there is anything to tell about a key. */
function isUsed({ remaining, limit, override, block, penalty }: ShownState): boolean {
  return remaining < limit || override !== null || block !== null || penalty !== null;
}

/** Does something to a setting, and tells what it was and what it is. */
async function recorded(
  { fleet }: AdminParts,
  id: Pick<KeySetting, 'kind' | 'policy' | 'key'>,
  change: () => Promise<void>,
): Promise<RecordedChange> {
  const settingNow = (): object | null => {
    const found = fleet.find(id);
    return found === undefined ? null : loggedSetting(found);
  };
  const before = settingNow();
  await change();
  return { before, after: settingNow() };
}

/** What an operator wrote goes into the log without what a terminal could take for its own. */
function loggedSetting({ numbers, expiresAt, by, note }: KeySetting): object {
  return {
    ...(numbers === undefined ? { blocked: true } : toSettings(numbers)),
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(by === undefined ? {} : { by: loggable(by) }),
    ...(note === undefined ? {} : { note: loggable(note) }),
  };
}

/** For the log: what a key has left; nothing where the store does not answer. */
async function spentOf(limit: Limit, { control }: AdminParts): Promise<object | null> {
  try {
    const { remaining, limit: most } = await control.limiter().peek(limit);
    return { remaining, limit: most };
  } catch {
    return null;
  }
}

/** What a setting has besides what it gives. */
function circumstances({
  expiresIn,
  by,
  note,
}: {
  readonly expiresIn: string | undefined;
  readonly by: string | undefined;
  readonly note: string | undefined;
}): Pick<KeySetting, 'setAt' | 'expiresAt' | 'by' | 'note'> {
  // What expires at a time of day goes by the wall clock.
  const now = Date.now();
  return {
    setAt: new Date(now).toISOString(),
    ...(expiresIn === undefined ? {} : { expiresAt: new Date(now + lengthMs(expiresIn)).toISOString() }),
    ...(by === undefined ? {} : { by }),
    ...(note === undefined ? {} : { note }),
  };
}

/** Ten years, as for every duration of the library. */
const MAX_LENGTH_US = 3650 * 86_400_000_000;

function lengthMs(text: string): number {
  try {
    return parseDuration(text, { name: 'expires_in', minUs: 1_000_000, maxUs: MAX_LENGTH_US }) / 1000;
  } catch (failure) {
    if (!(failure instanceof LimiterError)) throw failure;
    throw new AdminProblem(
      'INVALID_REQUEST',
      failure.message.replace(', or as a number of milliseconds', ''),
    );
  }
}

function limitOf({ policy = '', key = '' }: KeyPath, { control }: AdminParts): Limit {
  const found = policyOf(control, policy);
  try {
    return found.for(operatorsKey(control.live().config, policy, key, control.apiKeys()));
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

/** Whom a request was about, as they are counted, and whether that is anybody. */
function nameOf({ policy: { name: policy }, key }: Limit, { control }: AdminParts): object {
  const nobody = namesNobody(control.live().config, policy, key, control.apiKeys());
  return { policy, key, ...(nobody === undefined ? {} : { namesNobody: nobody }) };
}

/** What a key would be told now. */
export async function peekedState(limit: Limit, cost: number, parts: AdminParts): Promise<ShownState> {
  return stateOf(await parts.control.limiter().peek(limit, { cost }), limit, parts);
}

function stateOf(decision: Decision, limited: Limit, parts: AdminParts): ShownState {
  const { allowed, limit, remaining, retryAfterMs, resetAfterMs, delayMs, source, degraded, penalty } =
    decision;
  const { policy, key } = limited;
  const override = parts.fleet.find({ kind: 'override', policy: policy.name, key });
  const shown = {
    ...nameOf(limited, parts),
    allowed,
    limit,
    remaining,
    retryAfterMs: retryAfterMs === Infinity ? null : retryAfterMs,
    resetAfterMs,
    delayMs,
    source,
    degraded,
    override: override === undefined ? null : toSettings(override.numbers ?? {}),
    setting: override === undefined ? null : shownSetting(override),
    block: shownBlock(limited, parts),
    penalty: penalty === undefined ? null : { endsInMs: penalty.endsInMs, reason: penalty.reason },
  };
  return shown;
}

function overriddenKey(parameters: KeyPath, parts: AdminParts): object {
  const found = limitOf(parameters, parts);
  const { policy, key, limit } = found;
  const override = parts.fleet.find({ kind: 'override', policy: policy.name, key });
  return {
    ...nameOf(found, parts),
    limit,
    override: override === undefined ? null : toSettings(override.numbers ?? {}),
    setting: override === undefined ? null : shownSetting(override),
    keptIn: parts.fleet.keptIn(),
  };
}

function blockOf(parameters: KeyPath, parts: AdminParts): object {
  const found = limitOf(parameters, parts);
  return { ...nameOf(found, parts), block: shownBlock(found, parts), keptIn: parts.fleet.keptIn() };
}

function shownBlock({ policy, key }: Limit, { fleet }: AdminParts): object | null {
  const block = fleet.find({ kind: 'block', policy: policy.name, key });
  return block === undefined ? null : shownSetting(block);
}

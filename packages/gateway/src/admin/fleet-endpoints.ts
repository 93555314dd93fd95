import { LimiterError } from 'spillgate';
import type { InstanceSummary, KeySetting } from 'spillgate/internal';
import type { KeyNames } from '../config/schema/key-names.ts';
import { hashedKey } from '../config/schema/key.ts';
import { toSettings } from '../config/schema/policy.ts';
import { configuredOverrides } from '../rules/compiled-rule.ts';
import { defineEndpoint, json, type AdminParts, type Endpoint } from './endpoint.ts';
import { asWrittenNumber } from './gateway-endpoints.ts';
import { peekedState } from './key-endpoints.ts';
import { shownSetting } from './overrides.ts';
import { AdminProblem } from './problems.ts';
import { activeKeys, fleetInstances, keysQuery, overridesQuery, settingsList } from './schemas.ts';

/** What all instances that share a store know. */
export const FLEET_ENDPOINTS: readonly Endpoint[] = [
  defineEndpoint({
    id: 'keys',
    method: 'GET',
    path: '/v1/keys',
    summary:
      'The busiest keys and those that are denied most, over all gateways that share the Redis, with their state. Counts are of the last five to ten minutes, and at most `error` too high.',
    access: 'token',
    query: keysQuery,
    answers: { 200: json('The keys.', activeKeys) },
    problems: ['STORE_UNAVAILABLE'],
    handle: async ({ query: { limit = '20', policy, contains } }, parts) => ({
      status: 200,
      value: await keysOf(parts, { most: Number(limit), policy, contains }),
    }),
  }),
  defineEndpoint({
    id: 'overrides',
    method: 'GET',
    path: '/v1/overrides',
    summary: 'Which keys have other numbers, by the configuration and since, and which are blocked.',
    access: 'token',
    query: overridesQuery,
    answers: { 200: json('The overrides and blocks.', settingsList) },
    handle: ({ query: { limit = '1000', policy } }, parts) => ({
      status: 200,
      value: settingsOf(parts, Number(limit), policy),
    }),
  }),
  defineEndpoint({
    id: 'fleet',
    method: 'GET',
    path: '/v1/fleet',
    summary: 'Every instance that shares the Redis and told about itself in the last ten seconds.',
    access: 'token',
    answers: { 200: json('The instances, this one first.', fleetInstances) },
    problems: ['STORE_UNAVAILABLE'],
    handle: async (_, { fleet }) => {
      const instances = await orUnavailable(async () => fleet.instances());
      return { status: 200, value: { id: fleet.id ?? null, ...fleetOf(instances) } };
    },
  }),
];

interface WantedKeys {
  readonly most: number;
  readonly policy: string | undefined;
  readonly contains: string | undefined;
}

async function keysOf(parts: AdminParts, { most, policy, contains }: WantedKeys): Promise<object> {
  const { fleet, control } = parts;
  const { instances, activity } = await orUnavailable(async () => fleet.activity(MAX_MERGED_KEYS));
  const listed = (keys: typeof activity.busiest.keys) =>
    keys
      .filter((each) => policy === undefined || each.policy === policy)
      .filter(({ key }) => contains === undefined || mentions(key, contains, control.apiKeys()))
      .slice(0, most);
  const shownKey = async (each: (typeof activity.busiest.keys)[number]): Promise<object> => {
    const found = control.policies().get(each.policy);
    return { ...each, state: found === undefined ? null : await peekedState(found.for(each.key), 1, parts) };
  };
  return {
    instances,
    windowSeconds: activity.windowMs / 1000,
    busiest: await Promise.all(listed(activity.busiest.keys).map(shownKey)),
    denied: await Promise.all(listed(activity.denied.keys).map(shownKey)),
  };
}

function mentions(key: string, text: string, keys: KeyNames): boolean {
  const isNamed = key === hashedKey(text) || key === keys.ownerOf(text);
  return isNamed || key.toLowerCase().includes(text.toLowerCase());
}

/** More than anyone asks for, so that some of one policy are among them. */
const MAX_MERGED_KEYS = 1000;

function settingsOf({ fleet, control }: AdminParts, most: number, policy: string | undefined): object {
  const isAsked = (name: string): boolean => policy === undefined || name === policy;
  const configured = [...configuredOverrides(control.live().config)].flatMap(([name, byKey]) =>
    isAsked(name)
      ? [...byKey].map(([key, options]) => ({ policy: name, key, numbers: asTexts(toSettings(options)) }))
      : [],
  );
  const runtime = fleet.settings().filter((each) => isAsked(each.policy));
  const ofKind = (kind: KeySetting['kind']) => runtime.filter((each) => each.kind === kind);
  return {
    keptIn: fleet.keptIn(),
    configured: listOf(configured, most),
    overrides: listOf(ofKind('override').map(shownSetting), most),
    blocks: listOf(ofKind('block').map(shownSetting), most),
  };
}

function listOf(items: readonly object[], most: number): object {
  return { total: items.length, items: items.slice(0, most) };
}

/** The configuration has durations in milliseconds. */
function asTexts(settings: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [name, asWrittenNumber(name, value)]),
  );
}

function fleetOf(instances: readonly InstanceSummary[]): object {
  const sum = (count: (each: InstanceSummary['decisions']) => number): number =>
    instances.reduce((total, { decisions }) => total + count(decisions), 0);
  return {
    decisions: {
      allowed: sum(({ allowed }) => allowed),
      denied: sum(({ denied }) => denied),
      undecided: sum(({ undecided }) => undecided),
    },
    // A process with the library has none.
    configurations: [...new Set(instances.map(({ configHash }) => configHash).filter((hash) => hash !== ''))],
    instances: instances.map(instanceOf),
  };
}

function instanceOf(summary: InstanceSummary): object {
  const { id, name, kind, version, startedAt, publishedAt, configHash, decisions, more } = summary;
  const policies = summary.policies.map((policy) => policy.name);
  return { id, name, kind, version, startedAt, publishedAt, configHash, decisions, policies, more };
}

async function orUnavailable<Value>(ask: () => Promise<Value>): Promise<Value> {
  try {
    return await ask();
  } catch (failure) {
    if (!(failure instanceof LimiterError)) throw failure;
    throw new AdminProblem('STORE_UNAVAILABLE', failure.message);
  }
}

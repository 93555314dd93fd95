import { formatDuration } from 'spillgate';
import type { z } from 'zod';
import { blockedKey, forgotten, keyState, overridden, policies } from '../admin/schemas.ts';
import { loggable } from '../telemetry/logger.ts';
import {
  askAdmin,
  complaintOf,
  fieldOf,
  notAGateway,
  type AdminAnswer,
  type AdminClientOptions,
  type AdminRequest,
} from './admin-client.ts';
import { EXIT, type ExitCode, type Host, paintFor, type Paint, CommandFailure } from './host.ts';
import type { RedisOptions } from './redis-admin.ts';

export interface KeyOptions extends AdminClientOptions, RedisOptions {
  readonly policy?: string | undefined;
  readonly json?: boolean | undefined;
}

/** What a setting has besides what it gives. */
export interface SettingOptions extends KeyOptions {
  readonly expiresIn?: string | undefined;
  readonly by?: string | undefined;
  readonly note?: string | undefined;
  readonly remove?: boolean | undefined;
}

export interface OverrideOptions extends SettingOptions {
  readonly average?: string | undefined;
  readonly burst?: string | undefined;
  readonly period?: string | undefined;
  readonly quota?: string | undefined;
  readonly window?: string | undefined;
  readonly offset?: string | undefined;
  readonly maxDelay?: string | undefined;
  readonly every?: string | undefined;
  readonly timeZone?: string | undefined;
  readonly startsOn?: string | undefined;
  readonly limit?: string | undefined;
  readonly hold?: string | undefined;
}

/** `KEY`, or `POLICY KEY`. */
export type Words = readonly string[];

export function peek(
  host: Host,
  words: Words,
  options: KeyOptions & { readonly cost?: string | undefined },
): Promise<ExitCode> {
  const query = options.cost === undefined ? '' : `?cost=${encodeURIComponent(options.cost)}`;
  return command(host, options, async () => {
    const path = await keyPath(host, words, options);
    return { request: { method: 'GET', path: path + query }, schema: keyState, describe: describeState };
  });
}

export function forget(host: Host, words: Words, options: KeyOptions): Promise<ExitCode> {
  return command(host, options, async () => ({
    request: { method: 'DELETE', path: await keyPath(host, words, options) },
    schema: forgotten,
    describe: describeForgotten,
  }));
}

export function override(host: Host, words: Words, options: OverrideOptions): Promise<ExitCode> {
  return command(host, options, async () => {
    const numbers = numbersOf(options);
    const path = `${await keyPath(host, words, options)}/override`;
    return {
      request:
        options.remove === true
          ? { method: 'DELETE', path }
          : { method: 'PUT', path, body: { ...numbers, ...circumstances(options) } },
      schema: overridden,
      describe: describeOverride,
    };
  });
}

export function block(host: Host, words: Words, options: SettingOptions): Promise<ExitCode> {
  return command(host, options, async () => {
    const path = `${await keyPath(host, words, options)}/block`;
    return {
      request:
        options.remove === true
          ? { method: 'DELETE', path }
          : { method: 'PUT', path, body: circumstances(options) },
      schema: blockedKey,
      describe: describeBlock,
    };
  });
}

function circumstances({ expiresIn, by, note }: SettingOptions): object {
  return Object.fromEntries(
    Object.entries({ expires_in: expiresIn, by, note }).filter(([, value]) => value !== undefined),
  );
}

interface Errand {
  readonly request: AdminRequest;
  /** What the answer looks like. */
  readonly schema: z.ZodType;
  readonly describe: (body: unknown) => string;
}

/** Asks once, and shows what came back. */
export async function command(
  host: Host,
  options: KeyOptions,
  prepare: () => Promise<Errand>,
): Promise<ExitCode> {
  const { request, schema, describe } = await prepare();
  const body = await bodyOf(ask(host, options, request), schema);
  host.write(options.json === true ? `${JSON.stringify(body, undefined, 2)}\n` : `${describe(body)}\n`);
  return EXIT.ok;
}

/** A gateway, or without one the Redis that gateways and applications share. */
async function ask(host: Host, options: KeyOptions, request: AdminRequest): Promise<AdminAnswer> {
  const { redis } = options;
  if (redis === undefined) return askAdmin(host, options, request);
  if (options.admin !== undefined) throw new CommandFailure('Give --admin or --redis, not both.');
  const { askRedis } = await import('./redis-admin.ts');
  return askRedis(host, { ...options, redis }, request);
}

async function bodyOf(asked: Promise<AdminAnswer>, schema: z.ZodType): Promise<unknown> {
  const answer = await asked;
  if (answer.status !== 200) throw new CommandFailure(complaintOf(answer));
  const { error } = schema.safeParse(answer.body);
  // A newer gateway may say more.
  const wrong = error?.issues.some(({ code }) => code !== 'unrecognized_keys') ?? false;
  if (wrong) throw notAGateway(answer.origin);
  return answer.body;
}

export async function keyPath(host: Host, words: Words, options: KeyOptions): Promise<string> {
  const { policy: named, key } = wordsOf(words, options);
  const policy = named ?? (await onlyPolicy(host, options));
  return `/v1/keys/${encodeURIComponent(policy)}/${encodeURIComponent(key)}`;
}

/** What the words of a command name. */
export function wordsOf(
  words: Words,
  { policy: named }: Pick<KeyOptions, 'policy'>,
): { readonly policy: string | undefined; readonly key: string } {
  const [first = '', second] = words;
  if (words.length > 2 || (second !== undefined && named !== undefined)) {
    throw new CommandFailure('Give a KEY, or a POLICY and a KEY; a key with spaces needs quotes.');
  }
  return second === undefined ? { policy: named, key: first } : { policy: first, key: second };
}

/** Where there is one policy, nobody has to name it. */
async function onlyPolicy(host: Host, options: KeyOptions): Promise<string> {
  const asked = ask(host, options, { method: 'GET', path: '/v1/policies' });
  const known: unknown = fieldOf(await bodyOf(asked, policies), 'policies');
  const names = (Array.isArray(known) ? known : []).map((policy: unknown) => String(fieldOf(policy, 'name')));
  const [name, other] = names;
  if (name !== undefined && other === undefined) return name;
  throw new CommandFailure(
    name === undefined
      ? 'The gateway has no policy, so no key has a state.'
      : `Name one of the policies with --policy: ${names.join(', ')}.`,
  );
}

function numbersOf(options: OverrideOptions): object {
  const { average, burst, period, quota, window, offset, maxDelay, remove } = options;
  const { every, timeZone, startsOn, limit, hold } = options;
  const given = {
    average: wholeNumber('--average', average),
    burst: wholeNumber('--burst', burst),
    quota: wholeNumber('--quota', quota),
    period,
    window,
    offset,
    max_delay: maxDelay,
    every,
    time_zone: timeZone,
    starts_on: wholeNumber('--starts-on', startsOn),
    limit: wholeNumber('--limit', limit),
    hold,
  };
  const numbers = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  if ((Object.keys(numbers).length === 0) === (remove === true)) return numbers;
  throw new CommandFailure(
    remove === true
      ? 'Give numbers or --remove, not both.'
      : 'Give at least one number, such as --average 100, or --remove.',
  );
}

function wholeNumber(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,16}$/.test(text)) return Number(text);
  throw new CommandFailure(`${option} is ${JSON.stringify(text)}; expected a whole number.`);
}

function describeState(body: unknown): string {
  const number = (name: string): number => Number(fieldOf(body, name));
  const retryAfter: unknown = fieldOf(body, 'retryAfterMs');
  // Then the store was not asked what is left.
  const isBlocked = fieldOf(body, 'source') === 'block';
  const verdict =
    fieldOf(body, 'allowed') === true
      ? 'would be allowed'
      : retryAfter !== null
        ? `would be denied for another ${time(Number(retryAfter))}`
        : isBlocked
          ? 'would be denied'
          : 'would be denied: this cost never fits';
  const given: unknown = fieldOf(body, 'override');
  const blocked: unknown = fieldOf(body, 'block');
  const penalty: unknown = fieldOf(body, 'penalty');
  const degraded = fieldOf(body, 'degraded') === true;
  const [left, limit, resetAfterMs] = [number('remaining'), number('limit'), number('resetAfterMs')];
  // A state that is whole again is not kept: it cannot be told from one that never was.
  const fullAgain =
    left === limit && !degraded
      ? '  never used, or all of it has come back (or not a key of this policy)'
      : `  full again  ${resetAfterMs === 0 ? 'now' : `in ${time(resetAfterMs)}`}`;
  return [
    `${nameOf(body)} ${verdict}.`,
    ...(isBlocked ? [] : [`  left        ${left} of ${limit}`, fullAgain]),
    ...(typeof given === 'object' && given !== null ? [`  override    ${inWords(given)}`] : []),
    ...(typeof penalty === 'object' && penalty !== null
      ? [
          `  blocked     for another ${time(Number(fieldOf(penalty, 'endsInMs')))}: ${String(fieldOf(penalty, 'reason'))}`,
        ]
      : []),
    ...(typeof blocked === 'object' && blocked !== null
      ? [`  blocked    ${describeEnd(fieldOf(blocked, 'expiresAt')) || ' until somebody ends it'}`]
      : []),
    ...(degraded ? [`  The store did not answer: this is from ${String(fieldOf(body, 'source'))}.`] : []),
  ]
    .join('\n')
    .concat(warningOf(body));
}

function describeOverride(body: unknown): string {
  const given: unknown = fieldOf(body, 'override');
  const limit = `at most ${String(fieldOf(body, 'limit'))} at once`;
  if (typeof given !== 'object' || given === null) {
    return `${nameOf(body)} has the numbers of the configuration again: ${limit}.${warningOf(body)}`;
  }
  const until = describeEnd(fieldOf(fieldOf(body, 'setting'), 'expiresAt'));
  return [
    `${nameOf(body)} has ${inWords(given)} now${until}: ${limit}.${warningOf(body)}`,
    KEPT_IN.get(String(fieldOf(body, 'keptIn'))) ?? '',
  ].join('\n');
}

function describeForgotten(body: unknown): string {
  const isBlocked = fieldOf(body, 'block') !== null;
  const blocked = isBlocked ? ' It stays blocked: block --remove ends that.' : '';
  return `${nameOf(body)} is as if it had never been used.${blocked}${warningOf(body)}`;
}

function describeBlock(body: unknown): string {
  const given: unknown = fieldOf(body, 'block');
  if (typeof given !== 'object' || given === null) return `${nameOf(body)} is not blocked.${warningOf(body)}`;
  const until = describeEnd(fieldOf(given, 'expiresAt'));
  return [
    `${nameOf(body)} is denied everything${until === '' ? ' until you end it with --remove' : until}.${warningOf(body)}`,
    KEPT_IN.get(String(fieldOf(body, 'keptIn'))) ?? '',
  ].join('\n');
}

const KEPT_IN: ReadonlyMap<string, string> = new Map([
  ['redis', 'This holds in every gateway that shares the Redis, within a second.'],
  ['file', 'This holds in this gateway, also after a restart.'],
  ['memory', 'This holds in this gateway until it stops: set redis or state_dir to keep overrides.'],
]);

function describeEnd(expiresAt: unknown): string {
  return typeof expiresAt === 'string' ? ` until ${expiresAt}` : '';
}

/** A key that is nobody's is worth a word, whatever was done to it. */
function warningOf(body: unknown): string {
  const why = fieldOf(body, 'namesNobody');
  return typeof why === 'string' ? `\nwarning: no request through the gateway has this key: ${why}.` : '';
}

/** `average 100, max delay 9s`. */
export function inWords(numbers: object): string {
  return Object.entries(numbers)
    .map(([name, value]) => `${name.replaceAll('_', ' ')} ${String(value)}`)
    .join(', ');
}

/** Never less than there is: to the second, and below one to the millisecond. */
function time(ms: number): string {
  const unitMs = ms > 1000 ? 1000 : 1;
  return formatDuration(Math.max(1, Math.ceil(ms / unitMs)) * unitMs * 1000);
}

function nameOf(body: unknown): string {
  const key = loggable(String(fieldOf(body, 'key')), 128);
  return `${String(fieldOf(body, 'policy'))}/${key}`;
}

export interface HealthOptions extends AdminClientOptions {
  readonly deep?: boolean | undefined;
  readonly json?: boolean | undefined;
}

/** Exits with 0 if the gateway takes requests, else with 1: what a health check of a container wants. */
export async function health(host: Host, options: HealthOptions): Promise<ExitCode> {
  const { deep = false, json = false } = options;
  try {
    const path = deep ? '/readyz?deep=1' : '/readyz';
    const answer = await askAdmin(host, options, { method: 'GET', path });
    const { body } = answer;
    const ready = isReady(answer);
    const paint = paintFor(host.env, host.outputIsTerminal);
    host.write(json ? `${JSON.stringify(body, undefined, 2)}\n` : healthText(body, ready, paint));
    return ready ? EXIT.ok : EXIT.problems;
  } catch (failure) {
    if (!(failure instanceof CommandFailure)) throw failure;
    host.writeError(`${failure.message}\n`);
    return EXIT.problems;
  }
}

/** As in admin/schemas.ts, which would load a library for schemas: this runs every few seconds. */
const STATUSES: readonly unknown[] = ['ok', 'starting', 'draining', 'store-unavailable'];

function isReady(answer: AdminAnswer): boolean {
  const { origin, status, body } = answer;
  const known = STATUSES.includes(fieldOf(body, 'status'));
  if (status === 200 && known) return true;
  if (status === 200) throw notAGateway(origin);
  if (status === 503 && known) return false;
  const isProblem = typeof fieldOf(body, 'code') === 'string';
  throw new CommandFailure(
    isProblem ? `${origin} does not say whether it is ready: ${complaintOf(answer)}` : complaintOf(answer),
  );
}

function healthText(body: unknown, ready: boolean, paint: Paint): string {
  const lines = [
    ready ? paint('green', 'ready') : paint('red', `not ready: ${String(fieldOf(body, 'status'))}`),
    ...listOf(fieldOf(fieldOf(body, 'store'), 'nodes')).map((node) =>
      part(
        paint,
        fieldOf(node, 'status') === 'up',
        `store ${String(fieldOf(node, 'name'))}`,
        fieldOf(node, 'detail'),
      ),
    ),
    ...listOf(fieldOf(body, 'backends')).map((backend) => {
      const healthy = fieldOf(backend, 'healthy') === true;
      const error = fieldOf(backend, 'lastError');
      // Without health checks a backend counts as up; the last connection to it may have failed all the same.
      const detail = healthy && typeof error === 'string' ? `last connection failed: ${error}` : error;
      return part(paint, healthy, `backend ${String(fieldOf(backend, 'origin'))}`, detail);
    }),
  ];
  return `${lines.join('\n')}\n`;
}

function part(paint: Paint, good: boolean, name: string, detail: unknown): string {
  const mark = good ? paint('green', 'up  ') : paint('yellow', 'down');
  return `  ${mark} ${name}${typeof detail === 'string' && detail !== '' ? paint('dim', `: ${detail}`) : ''}`;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

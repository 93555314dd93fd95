import { formatDuration } from 'spillgate';
import type { z } from 'zod';
import { forgotten, keyState, overridden, policies } from '../admin/schemas.ts';
import { loggable } from '../telemetry/log.ts';
import {
  askAdmin,
  CommandFailure,
  complaintOf,
  fieldOf,
  notAGateway,
  type AdminAnswer,
  type AdminClientOptions,
  type AdminRequest,
} from './admin-client.ts';
import { EXIT, type ExitCode, type Host } from './host.ts';

export interface KeyOptions extends AdminClientOptions {
  readonly policy?: string | undefined;
  readonly json?: boolean | undefined;
}

export interface OverrideOptions extends KeyOptions {
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
  readonly remove?: boolean | undefined;
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
    describe: (body) => `${nameOf(body)} is as if it had never been used.`,
  }));
}

export function override(host: Host, words: Words, options: OverrideOptions): Promise<ExitCode> {
  return command(host, options, async () => {
    const numbers = numbersOf(options);
    const path = `${await keyPath(host, words, options)}/override`;
    return {
      request: options.remove === true ? { method: 'DELETE', path } : { method: 'PUT', path, body: numbers },
      schema: overridden,
      describe: describeOverride,
    };
  });
}

interface Errand {
  readonly request: AdminRequest;
  /** What the answer looks like. */
  readonly schema: z.ZodType;
  readonly describe: (body: unknown) => string;
}

/** Asks once, and shows what came back. */
async function command(host: Host, options: KeyOptions, prepare: () => Promise<Errand>): Promise<ExitCode> {
  try {
    const { request, schema, describe } = await prepare();
    const body = await bodyOf(askAdmin(host, options, request), schema);
    host.write(options.json === true ? `${JSON.stringify(body, undefined, 2)}\n` : `${describe(body)}\n`);
    return EXIT.ok;
  } catch (failure) {
    if (!(failure instanceof CommandFailure)) throw failure;
    host.writeError(`${failure.message}\n`);
    return EXIT.usage;
  }
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

async function keyPath(host: Host, words: Words, options: KeyOptions): Promise<string> {
  const { policy: named } = options;
  const [first = '', second] = words;
  if (words.length > 2 || (second !== undefined && named !== undefined)) {
    throw new CommandFailure('Give a KEY, or a POLICY and a KEY; a key with spaces needs quotes.');
  }
  const [policy, key] =
    second === undefined ? [named ?? (await onlyPolicy(host, options)), first] : [first, second];
  return `/v1/keys/${encodeURIComponent(policy)}/${encodeURIComponent(key)}`;
}

/** Where there is one policy, nobody has to name it. */
async function onlyPolicy(host: Host, options: AdminClientOptions): Promise<string> {
  const asked = askAdmin(host, options, { method: 'GET', path: '/v1/policies' });
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
  const { average, burst, period, quota, window, offset, maxDelay, every, timeZone, startsOn, remove } =
    options;
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
  const verdict =
    fieldOf(body, 'allowed') === true
      ? 'would be allowed'
      : retryAfter === null
        ? 'would be denied: this cost never fits'
        : `would be denied for another ${time(Number(retryAfter))}`;
  const given: unknown = fieldOf(body, 'override');
  const degraded = fieldOf(body, 'degraded') === true;
  const [left, limit, resetAfterMs] = [number('remaining'), number('limit'), number('resetAfterMs')];
  return [
    `${nameOf(body)} ${verdict}.`,
    `  left        ${left} of ${limit}`,
    // A state that is whole again is not kept: it cannot be told from one that never was.
    left === limit && !degraded
      ? '  never used, or all of it has come back (or not a key of this policy)'
      : `  full again  ${resetAfterMs === 0 ? 'now' : `in ${time(resetAfterMs)}`}`,
    ...(typeof given === 'object' && given !== null ? [`  override    ${inWords(given)}`] : []),
    ...(degraded ? [`  The store did not answer: this is from ${String(fieldOf(body, 'source'))}.`] : []),
  ].join('\n');
}

function describeOverride(body: unknown): string {
  const given: unknown = fieldOf(body, 'override');
  const limit = `at most ${String(fieldOf(body, 'limit'))} at once`;
  if (typeof given !== 'object' || given === null) {
    return `${nameOf(body)} has the numbers of the configuration again, in this gateway: ${limit}.`;
  }
  return [
    `${nameOf(body)} has ${inWords(given)} now: ${limit}.`,
    'This holds in this gateway and its workers until it ends. Other gateways keep their numbers: run this once for each.',
  ].join('\n');
}

/** `average 100, max delay 9s`. */
function inWords(numbers: object): string {
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

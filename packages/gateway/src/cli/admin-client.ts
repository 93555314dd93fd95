import { request as askHttp, type ClientRequest, type IncomingMessage } from 'node:http';
import { request as askHttps } from 'node:https';
import type { Config } from '../config/config.ts';
import { whyUnreadable } from '../config/problem.ts';
import { type Host, CommandFailure } from './host.ts';

/** How a command reaches a running gateway. */
export interface AdminClientOptions {
  readonly admin?: string | undefined;
  /** The configuration that the gateway runs with. */
  readonly config?: string | undefined;
}

export interface AdminAnswer {
  /** Who answered, such as `http://127.0.0.1:9090`. */
  readonly origin: string;
  readonly status: number;
  readonly body: unknown;
}

export interface AdminRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly body?: object;
  /** The answer is text rather than JSON. */
  readonly text?: boolean;
}

const DEFAULT_ADDRESS = '127.0.0.1:9090';
const ADDRESS_VARIABLE = 'SPILLGATE_ADMIN_ADDRESS';
const TOKEN_VARIABLE = 'SPILLGATE_ADMIN_TOKEN';
/** As in config/environment.ts, which would load the whole schema. */
const CONFIG_VARIABLE = 'SPILLGATE_CONFIG';
const TIMEOUT_MS = 5000;
const MAX_ANSWER_LENGTH = 16 * 2 ** 20;

/** Asks the admin server of a gateway once. */
export async function askAdmin(
  host: Host,
  options: AdminClientOptions,
  { method, path, body, text: asText = false }: AdminRequest,
): Promise<AdminAnswer> {
  const configured = await configuredAdmin(host, options);
  const origin = originOf(options.admin ?? givenAddress(host, configured.admin));
  const token = tokenOf(host) ?? configured.admin?.token;
  const ask = origin.startsWith('https:') ? askHttps : askHttp;
  const request = ask(origin, {
    method,
    // As it is: a key may be `..`, which an URL would take for a step up.
    path,
    agent: false,
    timeout: TIMEOUT_MS,
    headers: {
      accept: asText ? 'text/plain' : 'application/json',
      ...(token === undefined ? {} : { authorization: `Bearer ${asHeader(token)}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
  });
  request.once('timeout', () => request.destroy(Object.assign(new Error('too slow'), { code: 'ETIMEDOUT' })));
  request.end(body === undefined ? undefined : JSON.stringify(body));
  try {
    const response = await responseTo(request);
    const text = await textOf(response);
    return { origin, status: response.statusCode ?? 0, body: asText ? text : parsed(text, origin) };
  } catch (failure) {
    throw failure instanceof CommandFailure
      ? failure
      : new CommandFailure(
          `${origin} does not answer (${reasonOf(failure)}). ${configured.problem ?? 'Is the gateway running?'}`,
        );
  } finally {
    request.destroy();
  }
}

function responseTo(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve);
    request.on('error', reject);
  });
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = '';
  response.setEncoding('utf8');
  for await (const chunk of response) {
    text += String(chunk);
    if (text.length > MAX_ANSWER_LENGTH) throw new CommandFailure('The answer is longer than 16 MiB.');
  }
  return text;
}

/** What an answer says against a request. */
export function complaintOf({ origin, status, body }: AdminAnswer): string {
  const detail = fieldOf(body, 'detail');
  return typeof detail === 'string' && typeof fieldOf(body, 'code') === 'string'
    ? detail
    : `${origin} answered ${status}, and not as a gateway does. Is this its admin address?`;
}

export function notAGateway(origin: string): CommandFailure {
  return new CommandFailure(`${origin} does not answer as a gateway does. Is this its admin address?`);
}

export function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

/** `localhost:9090` without more is an address too. */
const WITHOUT_SCHEME = /^(?:[\w.-]*|\[[\da-f:.]+\]):\d{1,5}$/i;

function originOf(text: string): string {
  const address = WITHOUT_SCHEME.test(text) ? `http://${reachable(text)}` : text;
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.pathname !== '/') {
    throw new CommandFailure(
      `--admin is ${JSON.stringify(text)}; expected an address such as http://127.0.0.1:9090.`,
    );
  }
  return url.origin;
}

function givenAddress({ env }: Host, configured: Config['admin'] | undefined): string {
  const variable = env[ADDRESS_VARIABLE] ?? '';
  return variable === '' ? (configured?.address ?? DEFAULT_ADDRESS) : variable;
}

/** Where a gateway with this address can be reached from its own machine. */
function reachable(address: string): string {
  return address.replace(/^(?:0\.0\.0\.0|\[::\])?:/, '127.0.0.1:');
}

interface ConfiguredAdmin {
  readonly admin?: Config['admin'];
  /** Why nothing is known of it. */
  readonly problem?: string;
}

/** Of the file that the gateway runs with, where someone names it. */
async function configuredAdmin(
  { env, readFile }: Host,
  { admin, config }: AdminClientOptions,
): Promise<ConfiguredAdmin> {
  // The token in the file of this machine is not for another address.
  const path = config ?? (admin === undefined ? (env[CONFIG_VARIABLE] ?? '') : '');
  if (path === '') return {};
  const by = config === undefined ? CONFIG_VARIABLE : '--config';
  const { loadConfig } = await import('../config/load-config.ts');
  let text: string;
  try {
    text = readFile(path);
  } catch (failure) {
    throw new CommandFailure(`${by} names ${path}, which ${whyUnreadable(failure)}.`);
  }
  const loaded = loadConfig({ file: { path, text }, env, readFile });
  if (loaded.ok) return { admin: loaded.config.admin };
  const problem = `${by} names ${path}, which has problems: see spillgate check ${path}, or give the address by --admin.`;
  // A gateway goes on with the last good configuration; without the option it is worth a try.
  if (config === undefined) return { problem };
  throw new CommandFailure(problem);
}

function tokenOf({ env, readFile }: Host): string | undefined {
  const token = env[TOKEN_VARIABLE] ?? '';
  if (token !== '') return token;
  const file = env[`${TOKEN_VARIABLE}_FILE`] ?? '';
  if (file === '') return undefined;
  try {
    return readFile(file).trim();
  } catch (failure) {
    throw new CommandFailure(`${TOKEN_VARIABLE}_FILE names ${file}, which ${whyUnreadable(failure)}.`);
  }
}

/** A header is written as Latin-1: these are the bytes of UTF-8. */
function asHeader(text: string): string {
  if (/\p{Cc}/u.test(text)) {
    throw new CommandFailure(
      `The admin token contains a line break or another control character. Correct ${TOKEN_VARIABLE}, or where else it comes from.`,
    );
  }
  return Buffer.from(text).toString('latin1');
}

function parsed(text: string, origin: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw notAGateway(origin);
  }
}

function reasonOf(failure: unknown): string {
  if (failure instanceof AggregateError) return reasonOf(failure.errors[0]);
  return failure instanceof Error && 'code' in failure ? String(failure.code) : 'it failed';
}

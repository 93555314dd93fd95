import { activeKeys, keyState, settingsList } from '../admin/schemas.ts';
import { namesNobody } from '../config/cross-field-checks/written-keys.ts';
import { keyNamesOf } from '../identity/api-keys/key-file.ts';
import { operatorsKey } from '../rules/policy-readers.ts';
import { loggable } from '../telemetry/logger.ts';
import { fieldOf } from './admin-client.ts';
import { EXIT, type ExitCode, type Host, CommandFailure } from './host.ts';
import { configIn } from './redis-admin.ts';
import { command, inWords, keyPath, wordsOf, type KeyOptions, type Words } from './key-commands.ts';

export interface ListOptions extends KeyOptions {
  readonly limit?: string | undefined;
}

/** The busiest keys, and those that are denied most. */
export function keys(host: Host, options: ListOptions): Promise<ExitCode> {
  return command(host, options, async () =>
    Promise.resolve({
      request: { method: 'GET', path: `/v1/keys${queryOf(options)}` },
      schema: activeKeys,
      describe: describeKeys,
    }),
  );
}

/** Overrides of the configuration and of run time, and blocks. */
export function overrides(host: Host, options: ListOptions): Promise<ExitCode> {
  return command(host, options, async () =>
    Promise.resolve({
      request: { method: 'GET', path: `/v1/overrides${queryOf(options)}` },
      schema: settingsList,
      describe: describeSettings,
    }),
  );
}

/** A key as it is counted. With a configuration nobody has to be asked. */
export function countedKey(host: Host, words: Words, options: KeyOptions): Promise<ExitCode> {
  if (options.config !== undefined && options.redis === undefined && options.admin === undefined) {
    return Promise.resolve(countedOffline(host, words, options, options.config));
  }
  return command(host, options, async () => ({
    request: { method: 'GET', path: await keyPath(host, words, options) },
    schema: keyState,
    describe: (body) => counted(String(fieldOf(body, 'key')), fieldOf(body, 'namesNobody')),
  }));
}

function countedOffline(host: Host, words: Words, options: KeyOptions, file: string): ExitCode {
  const config = configIn(host, file);
  const { policy = '', key } = wordsOf(words, options);
  const known = ['default', ...Object.keys(config.rate_limit.policies)];
  if (!known.includes(policy)) {
    throw new CommandFailure(`Name one of the policies with --policy: ${known.join(', ')}.`);
  }
  const names = keyNamesOf(config, host.readFile);
  const found = operatorsKey(config, policy, key, names);
  const nobody = namesNobody(config, policy, found, names);
  host.write(
    options.json === true
      ? `${JSON.stringify({ policy, key: found, namesNobody: nobody }, undefined, 2)}\n`
      : `${counted(found, nobody)}\n`,
  );
  return EXIT.ok;
}

function counted(key: string, nobody: unknown): string {
  const warning =
    typeof nobody === 'string' ? `\nwarning: no request through the gateway has this key: ${nobody}.` : '';
  return loggable(key, 512) + warning;
}

function queryOf({ limit, policy }: ListOptions): string {
  const query = new URLSearchParams({
    ...(limit === undefined ? {} : { limit }),
    ...(policy === undefined ? {} : { policy }),
  }).toString();
  return query === '' ? '' : `?${query}`;
}

function describeKeys(body: unknown): string {
  const seconds = Math.round(Number(fieldOf(body, 'windowSeconds')));
  const instances = Number(fieldOf(body, 'instances'));
  return [
    `Of ${instances} ${instances === 1 ? 'instance' : 'instances'}, in the last ${seconds} s:`,
    ...section('busiest', listIn(body, 'busiest').map(activeKey)),
    ...section('denied most', listIn(body, 'denied').map(activeKey)),
  ].join('\n');
}

function activeKey(key: unknown): string {
  const state = fieldOf(key, 'state');
  const left = `${String(fieldOf(state, 'remaining'))} of ${String(fieldOf(state, 'limit'))} left`;
  return `${String(fieldOf(key, 'count')).padStart(9)}  ${nameOf(key)}${typeof state === 'object' && state !== null ? `  (${left})` : ''}`;
}

function describeSettings(body: unknown): string {
  const items = (name: string): readonly unknown[] => listIn(fieldOf(body, name), 'items');
  return [
    ...section('in the configuration', items('configured').map(settingLine)),
    ...section('set at run time', items('overrides').map(settingLine)),
    ...section('blocked', items('blocks').map(settingLine)),
  ].join('\n');
}

function settingLine(setting: unknown): string {
  const numbers = fieldOf(setting, 'numbers');
  const text = (name: string, before: string): string => {
    const value = fieldOf(setting, name);
    return typeof value === 'string' ? `${before}${loggable(value, 128)}` : '';
  };
  const given = typeof numbers === 'object' && numbers !== null ? `  ${inWords(numbers)}` : '';
  return `  ${nameOf(setting)}${given}${text('expiresAt', '  until ')}${text('by', '  by ')}${text('note', '  ')}`;
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return [`${title}:`, ...(lines.length === 0 ? ['  none'] : lines)];
}

function listIn(body: unknown, name: string): readonly unknown[] {
  const list = fieldOf(body, name);
  return Array.isArray(list) ? list : [];
}

function nameOf(body: unknown): string {
  return `${String(fieldOf(body, 'policy'))}/${loggable(String(fieldOf(body, 'key')), 128)}`;
}

import { randomBytes } from 'node:crypto';
import { parseDuration } from 'spillgate';
import type { Document } from 'yaml';
import type { Config } from '../config/config.ts';
import { CONFIG_FILE_VARIABLE } from '../config/environment.ts';
import { loadConfig } from '../config/load-config.ts';
import { apiKeyEntry, type ApiKeyEntry } from '../config/schema/identity.ts';
import { whyUnreadable } from '../config/problem.ts';
import { changeKeyFile, entriesOf, KeyFileError, readKeys } from '../identity/api-keys/key-file.ts';
import { hashOfKey } from '../identity/api-keys/key-ring.ts';
import { EXIT, type ExitCode, type Host, CommandFailure } from './host.ts';

export interface KeyFileOptions {
  readonly file?: string | undefined;
  readonly config?: string | undefined;
  readonly json?: boolean | undefined;
}

export interface AddKeyOptions extends KeyFileOptions {
  readonly plan?: string | undefined;
  readonly expires?: string | undefined;
  /** The key is on standard input, instead of a new one. */
  readonly stdin?: boolean | undefined;
}

export interface RotateKeyOptions extends KeyFileOptions {
  readonly keepOld?: string | undefined;
  readonly expires?: string | undefined;
}

/** 32 random bytes: no hash of it can be undone by trying. */
const KEY_BYTES = 32;
const KEY_PREFIX = 'sg_';
/** A key of one's own must not be guessable from its hash. */
const MIN_OWN_KEY_LENGTH = 20;
const OWN_KEY = /^[!-~]{20,512}$/;

export async function addKey(host: Host, name: string, options: AddKeyOptions): Promise<ExitCode> {
  return command(host, options, ({ file, config }) => {
    requirePlan(options.plan, config);
    const key = options.stdin === true ? ownKey(host) : newKey();
    const expires = options.expires === undefined ? undefined : momentOf('--expires', options.expires);
    const entry = withoutUndefined({ name, hash: hashOfKey(key), plan: options.plan, expires });
    requireEntry(entry);
    changeKeyFile(file, (document) => {
      if (entriesOf(document).some((known) => known.name === name)) {
        throw new CommandFailure(
          `There is a key named ${name} in ${file} already. Use rotate, or another name.`,
        );
      }
      if (!document.hasIn(['keys'])) document.setIn(['keys'], document.createNode([]));
      document.addIn(['keys'], document.createNode(entry));
    });
    if (options.plan !== undefined && config === undefined) {
      host.writeError(
        `warning: nobody checked that there is a plan named ${options.plan}: name the configuration with --config.\n`,
      );
    }
    const shownKey = options.stdin === true ? undefined : key;
    if (options.json === true) return json({ ...entry, key: shownKey });
    return `Added ${name} to ${file}.\n${shownKey === undefined ? '' : secretText(shownKey)}`;
  });
}

export async function listKeys(host: Host, options: KeyFileOptions): Promise<ExitCode> {
  return command(host, options, ({ file, config }) => {
    const inConfig = options.file === undefined ? (config?.identity.api_keys?.keys ?? []) : [];
    const entries = [...inConfig, ...readKeys(host.readFile(file))];
    const now = new Date();
    const rows = entries.map((entry) => ({
      name: entry.name,
      plan: entry.plan,
      state: stateOf(entry, now),
      expires: entry.expires,
      previousUntil: entry.previous?.until,
    }));
    if (options.json === true) return json(rows);
    if (rows.length === 0) return `${file} has no keys.\n`;
    return table([
      ['NAME', 'PLAN', 'STATE', 'EXPIRES', 'OLD KEY UNTIL'],
      ...rows.map(({ name, plan = '-', state, expires = '-', previousUntil = '-' }) => [
        name,
        plan,
        state,
        expires,
        previousUntil,
      ]),
    ]);
  });
}

export async function revokeKey(host: Host, name: string, options: KeyFileOptions): Promise<ExitCode> {
  return command(host, options, ({ file }) => {
    changeKeyFile(file, (document) => {
      const at = placeOf(document, name, file);
      document.setIn(['keys', at, 'disabled'], true);
      document.deleteIn(['keys', at, 'previous']);
    });
    return options.json === true
      ? json({ name, state: 'disabled' })
      : `Revoked ${name}: within a second it gets a 401 from every gateway that reads ${file}.\n`;
  });
}

export async function rotateKey(host: Host, name: string, options: RotateKeyOptions): Promise<ExitCode> {
  return command(host, options, ({ file }) => {
    const key = newKey();
    const until = options.keepOld === undefined ? undefined : momentOf('--keep-old', options.keepOld);
    const expires = options.expires === undefined ? undefined : momentOf('--expires', options.expires);
    let before: ApiKeyEntry | undefined;
    changeKeyFile(file, (document) => {
      const at = placeOf(document, name, file);
      before = entriesOf(document)[at];
      requireUse(before, { until, expires });
      document.setIn(['keys', at, 'hash'], hashOfKey(key));
      document.deleteIn(['keys', at, 'disabled']);
      if (expires !== undefined) document.setIn(['keys', at, 'expires'], expires);
      if (until === undefined) document.deleteIn(['keys', at, 'previous']);
      else document.setIn(['keys', at, 'previous'], document.createNode({ hash: before?.hash, until }));
    });
    const enabled = before?.disabled === true;
    if (options.json === true) {
      return json(withoutUndefined({ name, key, previousUntil: until, enabled: enabled || undefined }));
    }
    const again = enabled ? ` It was revoked, and is accepted again.` : '';
    const old =
      until === undefined ? 'The old key gets a 401 from now on.' : `The old key is accepted until ${until}.`;
    return `Gave ${name} a new key.${again} ${old}\n${secretText(key)}`;
  });
}

/** A new key that nobody could use is not worth making, and one that was revoked does not come back. */
function requireUse(
  entry: ApiKeyEntry | undefined,
  { until, expires }: { readonly until: string | undefined; readonly expires: string | undefined },
): void {
  if (entry === undefined) return;
  const { name, disabled, expires: ended } = entry;
  if (disabled && until !== undefined) {
    throw new CommandFailure(
      `${name} is revoked, and its old key must not be accepted again. Leave out --keep-old.`,
    );
  }
  if (stateOf({ ...entry, disabled: false }, new Date()) === 'expired' && expires === undefined) {
    throw new CommandFailure(
      `${name} expired at ${ended ?? ''}, and a new key would be refused, too. Say how long it holds with --expires, such as 90d.`,
    );
  }
}

/** What a command says, or why it could not. */
async function command(
  host: Host,
  options: KeyFileOptions,
  act: (chosen: ChosenFile) => string,
): Promise<ExitCode> {
  let file = '';
  try {
    const chosen = keyFileOf(host, options);
    ({ file } = chosen);
    host.write(act(chosen));
    return await Promise.resolve(EXIT.ok);
  } catch (failure) {
    const code = failure instanceof Error && 'code' in failure ? String(failure.code) : '';
    if (failure instanceof KeyFileError) host.writeError(`The file of keys ${file} ${failure.message}.\n`);
    else if (code !== '') host.writeError(`The file of keys ${file} ${whyUnusable(failure)}.\n`);
    else throw failure;
    return EXIT.usage;
  }
}

/** Reading or writing, whichever failed. */
function whyUnusable(failure: unknown): string {
  const why = whyUnreadable(failure);
  return why.startsWith('may not')
    ? 'may not be read or changed by this user'
    : why.replace('be read (', 'be used (');
}

interface ChosenFile {
  readonly file: string;
  /** Undefined if no configuration is named. */
  readonly config: Config | undefined;
}

function keyFileOf(host: Host, { file, config: named }: KeyFileOptions): ChosenFile {
  const path = named ?? host.env[CONFIG_FILE_VARIABLE];
  const config = path === undefined || path === '' ? undefined : configIn(host, path);
  const found = file ?? config?.identity.api_keys?.file;
  if (found !== undefined) return { file: found, config };
  throw new CommandFailure(
    path === undefined || path === ''
      ? 'Which file? Name it with --file, or the configuration that names it with --config.'
      : `${path} does not say where keys are kept. Set identity.api_keys.file, or use --file.`,
  );
}

function configIn(host: Host, path: string): Config {
  const { env, readFile } = host;
  let text: string;
  try {
    text = readFile(path);
  } catch (failure) {
    throw new CommandFailure(`The configuration ${path} ${whyUnreadable(failure)}.`);
  }
  const loaded = loadConfig({ file: { path, text }, env, readFile });
  if (loaded.ok) return loaded.config;
  throw new CommandFailure(`${path} cannot be used. See: ${host.program} check ${path}`);
}

function requirePlan(plan: string | undefined, config: Config | undefined): void {
  if (plan === undefined || config === undefined || Object.hasOwn(config.identity.plans, plan)) return;
  const plans = Object.keys(config.identity.plans);
  throw new CommandFailure(
    `There is no plan named ${plan} in identity.plans. Plans: ${plans.length === 0 ? 'none' : plans.join(', ')}.`,
  );
}

/** Says which argument is wrong, before the file is looked at. */
function requireEntry(entry: object): void {
  const { error } = apiKeyEntry.safeParse(entry);
  const [issue] = error?.issues ?? [];
  if (issue === undefined) return;
  const [setting] = issue.path;
  const argument = setting === 'name' ? 'The name' : `--${String(setting)}`;
  throw new CommandFailure(
    `${argument} is ${JSON.stringify(Reflect.get(entry, setting ?? ''))}; it ${issue.message}.`,
  );
}

function placeOf(document: Document, name: string, file: string): number {
  const at = entriesOf(document).findIndex((entry) => entry.name === name);
  if (at === -1) throw new CommandFailure(`There is no key named ${name} in ${file}.`);
  return at;
}

function newKey(): string {
  return KEY_PREFIX + randomBytes(KEY_BYTES).toString('base64url');
}

function ownKey(host: Host): string {
  const key = host.readFile('-').trim();
  if (OWN_KEY.test(key)) return key;
  throw new CommandFailure(
    `The key on standard input has ${key.length} characters; expected ${MIN_OWN_KEY_LENGTH} to 512, visible ASCII without spaces.`,
  );
}

/** `90d` from now, or a date and time with its time zone. */
function momentOf(option: string, text: string): string {
  if (/^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)$/.test(text) && Number.isFinite(Date.parse(text))) {
    // The wall clock: keys expire at a date.
    const now = new Date();
    if (Date.parse(text) > now.getTime()) return text;
    throw new CommandFailure(
      `${option} is ${text}, which is over; it is ${now.toISOString()} now. Give a later time, or one from now, such as 90d.`,
    );
  }
  try {
    const ms = parseDuration(text, { name: option, minUs: 1, maxUs: 36_500 * 86_400_000_000 }) / 1000;
    // The wall clock: keys expire at a date.
    return new Date(Date.now() + ms).toISOString();
  } catch {
    throw new CommandFailure(
      `${option} is ${text}; expected a time from now, such as 90d, or a date and time with a time zone, such as 2027-01-31T00:00:00Z.`,
    );
  }
}

function stateOf({ disabled, expires }: ApiKeyEntry, now: Date): string {
  if (disabled) return 'disabled';
  return expires !== undefined && new Date(expires) <= now ? 'expired' : 'active';
}

function secretText(key: string): string {
  return `Give it to whoever asked for it. It is not kept anywhere, and this is the only time it is shown:\n\n  ${key}\n`;
}

function json(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}

function withoutUndefined(value: object): object {
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== undefined));
}

import { parseDocument } from 'yaml';
import { isTree } from './path.ts';
import type { Origin, ConfigProblem } from './problem.ts';
import { SETTINGS, type Setting } from './settings.ts';
import { nearest } from './suggestion.ts';

export type GatewayEnvironment = Readonly<Record<string, string | undefined>>;

/** A value from a variable, and the path it belongs to. */
export interface EnvironmentValue {
  readonly keys: readonly string[];
  readonly value: unknown;
  readonly origin: Origin;
}

export interface EnvironmentReading {
  readonly values: readonly EnvironmentValue[];
  readonly problems: readonly ConfigProblem[];
  /** Variables of other rate limiters: what they mean here depends on the file. */
  readonly foreign: GatewayEnvironment;
}

/** Names the file when the command line does not; read by the program, not here. */
export const CONFIG_FILE_VARIABLE = 'SPILLGATE_CONFIG';

const PREFIX = 'SPILLGATE_';
const FORMER_PREFIX = 'EDGEQUOTA_';
const FILE_SUFFIX = '_FILE';
const MAX_LENGTH = 2 ** 20;
/** What Kubernetes adds for a service whose name begins with `spillgate`. */
const KUBERNETES = /_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)$/;

/**
 * Reads every `SPILLGATE_...` variable, and `EDGEQUOTA_...` as if it were one; `readFile` is asked for the files of
 * `..._FILE`.
 */
export function readEnvironment(
  env: GatewayEnvironment,
  readFile: (path: string) => string,
): EnvironmentReading {
  const values: EnvironmentValue[] = [];
  const problems: ConfigProblem[] = [];
  for (const [name, text] of Object.entries(env)) {
    if (name === CONFIG_FILE_VARIABLE || text === undefined || text === '') continue;
    const found = name.startsWith(PREFIX)
      ? readVariable(name, text, { env, readFile })
      : name.startsWith(FORMER_PREFIX)
        ? readFormerVariable(name, text, { env, readFile })
        : undefined;
    if (found === undefined) continue;
    if ('keys' in found) values.push(found);
    else if (found.message !== '') problems.push(found);
  }
  const foreign = Object.entries(env).filter(([name]) => FOREIGN_NAMES.test(name));
  return { values, problems, foreign: Object.fromEntries(foreign) };
}

const FOREIGN_NAMES = /^(?:REDIS_(?:URL|ADDRS?|DB|USERNAME|PASSWORD)|DISTRIBUTED_RATE_LIMIT_\w{1,64})$/;

/**
 * The same name as EdgeQuota has it: used where ours is not set, and said to have no effect where it means nothing
 * here.
 */
function readFormerVariable(
  name: string,
  text: string,
  source: VariableSource,
): EnvironmentValue | ConfigProblem {
  const ours = name.replace(FORMER_PREFIX, PREFIX).replace('_RATE_LIMIT_STATIC_', '_RATE_LIMIT_');
  if ([ours, ours.replace(FILE_SUFFIX, '')].some((known) => (source.env[known] ?? '') !== '')) {
    return {
      ...problem(name, `is set, but not used: ${ours} is set, too`, 'Unset it.'),
      severity: 'warning',
    };
  }
  const found = readVariable(ours, text, source);
  if ('keys' in found) return { ...found, origin: { from: 'env', name } };
  if (KNOWN_NAMES.includes(ours)) {
    return { ...found, origin: { from: 'env', name }, message: found.message.replace(ours, name) };
  }
  if (found.message === '') return found;
  const suggestion = found.suggestion?.startsWith('Did') === true ? found.suggestion : 'Unset it.';
  return {
    ...problem(name, 'is set, but not used: there is no such setting', suggestion),
    severity: 'warning',
  };
}

interface VariableSource {
  readonly env: GatewayEnvironment;
  readonly readFile: (path: string) => string;
}

const BY_NAME: ReadonlyMap<string, Setting> = new Map(
  SETTINGS.flatMap((setting) => (setting.env === undefined ? [] : [[setting.env, setting] as const])),
);
const BY_FILE_NAME: ReadonlyMap<string, Setting> = new Map(
  SETTINGS.flatMap((setting) =>
    setting.env !== undefined && setting.secret ? [[setting.env + FILE_SUFFIX, setting] as const] : [],
  ),
);
const KNOWN_NAMES: readonly string[] = [...BY_NAME.keys(), ...BY_FILE_NAME.keys(), CONFIG_FILE_VARIABLE];

function readVariable(
  name: string,
  text: string,
  { env, readFile }: VariableSource,
): EnvironmentValue | ConfigProblem {
  const origin: Origin = { from: 'env', name };
  if (text.length > MAX_LENGTH) return problem(name, `has more than ${MAX_LENGTH} characters`);
  const setting = BY_NAME.get(name);
  if (setting?.keys !== undefined) {
    const value = valueOf(setting, text);
    return value === undefined
      ? problem(name, 'is not a list or a map: write JSON, or YAML on one line')
      : { keys: setting.keys, value, origin };
  }
  const secret = BY_FILE_NAME.get(name);
  if (secret?.keys === undefined || secret.env === undefined) return unknownVariable(name);
  if ((env[secret.env] ?? '') !== '') {
    return problem(name, `and ${secret.env} are both set`, 'Unset one of them.');
  }
  try {
    return { keys: secret.keys, value: readFile(text).replace(/\r?\n$/, ''), origin };
  } catch (failure) {
    const code = failure instanceof Error && 'code' in failure ? ` (${String(failure.code)})` : '';
    return problem(name, `names a file that cannot be read${code}`);
  }
}

/** An empty message stands for nothing to report. */
function unknownVariable(name: string): ConfigProblem {
  if (KUBERNETES.test(name)) return problem('', '');
  const meant = nearest(name, KNOWN_NAMES);
  return problem(
    name,
    'is not a setting',
    meant === undefined
      ? 'Unset it, or look it up in the configuration reference.'
      : `Did you mean ${meant}?`,
  );
}

/** Texts as they are, lists of texts by commas, numbers and switches as YAML reads them, the rest as YAML. */
function valueOf({ kind, fallback }: Setting, text: string): unknown {
  if (Array.isArray(fallback) && kind !== 'list' && !text.trimStart().startsWith('[')) {
    const items = text.split(',').map((item) => item.trim());
    return kind.includes('integer') ? items.map((item) => scalar(item)) : items;
  }
  if (/^(?:integer|number|`true`)/.test(kind)) return scalar(text);
  if (Array.isArray(fallback) || isTree(fallback) || kind === 'key') return structure(text);
  return text;
}

function scalar(text: string): unknown {
  const trimmed = text.trim().toLowerCase();
  if (trimmed === 'true' || trimmed === 'false') return trimmed === 'true';
  return /^-?\d+(?:\.\d+)?$/.test(trimmed) ? Number(trimmed) : text;
}

function structure(text: string): unknown {
  try {
    const document = parseDocument(text, { prettyErrors: false, version: '1.2' });
    if (document.errors.length > 0) return undefined;
    const value: unknown = document.toJS({ maxAliasCount: 0 });
    return value === null ? undefined : value;
  } catch {
    // Too deep, or with aliases: not a list or map that anyone needs.
    return undefined;
  }
}

function problem(name: string, complaint: string, suggestion?: string): ConfigProblem {
  const message = complaint === '' ? '' : `${name} ${complaint}`;
  return { severity: 'error', origin: { from: 'env', name }, path: '', message, suggestion };
}

// Variables that other rate limiters are configured by. What means the same here is used where the file and
// SPILLGATE_... say nothing; what is set and not used is told, because somebody expects it to have an effect.
const ENABLED = 'DISTRIBUTED_RATE_LIMIT_ENABLED';
/** The first that is set names the servers. */
const ADDRESSES = ['REDIS_ADDRS', 'REDIS_ADDR', 'REDIS_URL'] as const;
const ACCESS = ['REDIS_DB', 'REDIS_USERNAME', 'REDIS_PASSWORD'] as const;
const LOG_OF_TOKENS =
  'Define a policy in rate_limit.policies with algorithm: slidingWindowLog, quota and window, and name it in a rule.';

type ForeignReading = Omit<EnvironmentReading, 'foreign'>;

interface WrittenSection {
  readonly has: (name: string) => boolean;
}

/** `tree`: what the file and the variables of the gateway say. */
export function readForeignVariables(env: GatewayEnvironment, tree: unknown): ForeignReading {
  const reader = new ForeignReader(env);
  const redis = sectionOf(tree, 'redis');
  const isWanted = redis !== undefined || isOn(env[ENABLED]);
  const isPlaced = ['url', 'endpoints', 'shards'].some((name) => redis?.has(name) === true);

  if (!isWanted) reader.leave([...ADDRESSES, ...ACCESS, 'DISTRIBUTED_RATE_LIMIT_PREFIX'], NO_REDIS);
  else if (isPlaced) reader.leave([...ADDRESSES, ...ACCESS], PLACED);
  else reader.adoptServers(redis);
  if (isWanted) reader.adopt('DISTRIBUTED_RATE_LIMIT_PREFIX', ['redis', 'key_prefix'], redis);
  if (redis === undefined) reader.use(ENABLED);
  else reader.leave([ENABLED], { why: 'the redis section says so already', remedy: 'Unset it.' });
  reader.adoptFallback(sectionOf(tree, 'rate_limit'));
  reader.leave(['DISTRIBUTED_RATE_LIMIT_MAX', 'DISTRIBUTED_RATE_LIMIT_WINDOW'], {
    why: 'the gateway has policies of its own',
    remedy: LOG_OF_TOKENS,
  });
  reader.leave(
    Object.keys(env).filter((name) => name.startsWith('DISTRIBUTED_RATE_LIMIT_')),
    {
      why: 'there is no such variable',
      remedy: 'Unset it.',
    },
  );
  return reader;
}

interface Reason {
  readonly why: string;
  readonly remedy: string;
}

const NO_REDIS: Reason = {
  why: 'there is no redis section, so limits are kept in memory',
  remedy: `Add "redis: {}" to the file, or set ${ENABLED}=true.`,
};
const PLACED: Reason = {
  why: 'the configuration names the servers already',
  remedy: 'Unset it, or remove the address from the configuration.',
};

class ForeignReader implements ForeignReading {
  readonly values: EnvironmentValue[] = [];
  readonly problems: ConfigProblem[] = [];
  private readonly env: GatewayEnvironment;
  private readonly done = new Set<string>();

  constructor(env: GatewayEnvironment) {
    this.env = env;
  }

  /** Marks a variable as used; its text if it is set. */
  use(name: string): string | undefined {
    this.done.add(name);
    const text = this.env[name];
    return text === '' ? undefined : text;
  }

  leave(names: readonly string[], { why, remedy }: Reason): void {
    for (const name of names) {
      if (this.done.has(name) || this.use(name) === undefined) continue;
      this.problems.push({
        severity: 'warning',
        origin: { from: 'env', name },
        path: '',
        message: `${name} is set, but not used: ${why}`,
        suggestion: remedy,
      });
    }
  }

  adopt(
    name: string,
    keys: readonly [string, string],
    section: WrittenSection | undefined,
    read = asText,
  ): void {
    if (section?.has(keys[1]) === true) return this.leave([name], written(keys.join('.')));
    const text = this.use(name);
    if (text !== undefined) this.values.push({ keys, value: read(text), origin: { from: 'env', name } });
  }

  adoptServers(redis: WrittenSection | undefined): void {
    const name = ADDRESSES.find((candidate) => (this.env[candidate] ?? '') !== '');
    if (name === 'REDIS_URL') {
      this.adopt(name, ['redis', 'url'], redis);
    } else if (name !== undefined) {
      const addresses = (this.env[name] ?? '').split(',').map((address) => address.trim());
      this.adopt(name, ['redis', 'endpoints'], redis, () => addresses);
      // Independent servers, each with its part of the keys.
      if (addresses.length > 1 && redis?.has('mode') !== true) {
        this.values.push({ keys: ['redis', 'mode'], value: 'shards', origin: { from: 'env', name } });
      }
    }
    if (name === undefined && redis === undefined) {
      // As the variable has it by default.
      const origin = { from: 'env', name: ENABLED } as const;
      this.values.push({ keys: ['redis', 'endpoints'], value: ['localhost:6379'], origin });
    }
    this.leave(ADDRESSES, { why: `${name ?? ''} names the servers`, remedy: 'Unset one of them.' });
    this.adopt('REDIS_DB', ['redis', 'db'], redis, asNumber);
    this.adopt('REDIS_USERNAME', ['redis', 'username'], redis);
    this.adopt('REDIS_PASSWORD', ['redis', 'password'], redis);
  }

  adoptFallback(limits: WrittenSection | undefined): void {
    this.adopt('DISTRIBUTED_RATE_LIMIT_FALLBACK', ['rate_limit', 'failure_policy'], limits, (text) =>
      isOn(text) ? 'inMemoryFallback' : 'failClosed',
    );
  }
}

function written(setting: string): Reason {
  return { why: `the configuration has ${setting}`, remedy: 'Unset it.' };
}

/** Undefined if nobody has written it. */
function sectionOf(tree: unknown, name: string): WrittenSection | undefined {
  const section = isTree(tree) ? tree[name] : undefined;
  return isTree(section) ? { has: (setting) => Object.hasOwn(section, setting) } : undefined;
}

function isOn(text: string | undefined): boolean {
  return ['true', '1', 'yes', 'on'].includes((text ?? '').toLowerCase());
}

function asText(text: string): unknown {
  return text;
}

function asNumber(text: string): unknown {
  return /^\d{1,15}$/.test(text) ? Number(text) : text;
}

// Variables that other rate limiters are configured by. What means the same here is used where the file and SPILLGATE_... say nothing;
// what is set and not used is told, because somebody expects it to have an effect.
import type { EnvironmentReading, EnvironmentValue, GatewayEnvironment } from './environment.ts';
import { isTree } from './path.ts';
import type { ConfigProblem } from './problem.ts';

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

import { LimiterError, show } from '../errors.ts';
import { complain } from '../events.ts';
import type { Policy } from '../limit.ts';
import type { Limiter } from '../limiter.ts';
import { requireOptionNames } from '../options.ts';
import { processWarning } from '../process-warning.ts';
import type { RedisStoreOptions } from '../stores/redis/redis-options.ts';
import { AppliedSettings } from './applied-settings.ts';
import {
  PUBLISH_EVERY_MS,
  PUBLISHED_KEYS,
  PUBLISHED_POLICIES,
  SUMMARY_TTL_MS,
  type InstanceSummary,
} from './instance-summary.ts';
import { KeyActivity } from './key-activity.ts';
import type { KeySetting } from './key-setting.ts';
import { openRedisFleet, type RedisFleet } from './redis-fleet.ts';
import { SharedSettings } from './shared-settings.ts';

export interface JoinFleetOptions {
  /** Where the fleet meets: the options of `redisStore()`, with the same `prefix`. */
  readonly redis: RedisStoreOptions;
  /** The policies that are to follow what operators set, 1 to 200, each with a name of its own. */
  readonly policies: readonly Policy[];
  /** Whose decisions the lists of busy keys count. Default: none. */
  readonly limiter?: Limiter | undefined;
  /** What operators read in lists of instances, at most 64 characters. Default: `'library'`. */
  readonly name?: string | undefined;
  /** The numbers that the program itself gives to a key, which hold again when an override ends. Default: none. */
  readonly configured?: ((policy: string, key: string) => object | null) | undefined;
  /** Hears of settings that cannot be read or do not fit. Default: a process warning. */
  readonly onWarning?: ((warning: FleetWarning) => void) | undefined;
}

export interface FleetWarning {
  readonly code: 'SETTINGS_UNREADABLE' | 'OVERRIDE_REJECTED';
  readonly message: string;
  readonly cause: unknown;
}

/** This process among those that share a Redis. */
export interface JoinedFleet {
  /** The overrides and blocks that were set at run time, as they are known here now. */
  settings(): readonly KeySetting[];
  /** Leaves the fleet and closes its connections. The settings that are known stay on the policies. */
  close(): Promise<void>;
}

const OPTIONS = ['redis', 'policies', 'limiter', 'name', 'configured', 'onWarning'];
const MAX_NAME_LENGTH = 64;

/**
 * Lets the policies of this process follow the overrides and blocks that gateways and `spillgate override` keep in
 * Redis, within a second. Resolves when those that are there hold, or cannot be read now; it never rejects for an
 * outage.
 *
 * @example
 * const redis = { url: 'redis://localhost:6379' };
 * const limiter = createLimiter({ store: redisStore(redis) });
 * const fleet = await joinFleet({ redis, policies: [api], limiter });
 */
export async function joinFleet(options: JoinFleetOptions): Promise<JoinedFleet> {
  requireOptions(options);
  const member = new LibraryMember(options, openRedisFleet(options.redis));
  await member.start();
  return member;
}

class LibraryMember implements JoinedFleet {
  private readonly id = crypto.randomUUID();
  private readonly startedAt = new Date().toISOString();
  private readonly options: JoinFleetOptions;
  private readonly redis: RedisFleet;
  private readonly applied: AppliedSettings;
  private readonly shared: SharedSettings;
  private readonly activity = new KeyActivity();
  private readonly stopListening: () => void;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private telling: Promise<void> = Promise.resolve();
  private closed: Promise<void> | undefined;

  constructor(options: JoinFleetOptions, redis: RedisFleet) {
    this.options = options;
    this.redis = redis;
    const policies = new Map(options.policies.map((policy) => [policy.name, policy]));
    this.applied = new AppliedSettings({
      policies: () => policies,
      configured: (policy, key) => this.configured(policy, key),
      rejected: ({ kind, policy, key }, cause) => {
        const what = kind === 'override' ? 'an override' : 'a block';
        const message = `${what} of ${show(key)} does not fit policy ${show(policy)} here, and is not used: ${wordsOf(cause)}`;
        this.warn({ code: 'OVERRIDE_REJECTED', message, cause });
      },
    });
    this.shared = new SharedSettings({
      store: redis,
      applied: this.applied,
      unreadable: (cause) => {
        const message = `overrides and blocks cannot be read from Redis; those known here still hold: ${wordsOf(cause)}`;
        this.warn({ code: 'SETTINGS_UNREADABLE', message, cause });
      },
    });
    this.stopListening =
      options.limiter?.on('decision', ({ decision }) => this.activity.note(decision)) ?? (() => undefined);
  }

  async start(): Promise<void> {
    await this.shared.start();
    this.tell();
  }

  settings(): readonly KeySetting[] {
    return this.applied.all();
  }

  async close(): Promise<void> {
    this.closed ??= this.leave();
    return this.closed;
  }

  private async leave(): Promise<void> {
    this.shared.stop();
    this.stopListening();
    clearTimeout(this.timer);
    await this.telling;
    // Who cannot say goodbye is forgotten soon.
    await this.redis.withdraw(this.id).catch(() => undefined);
    await this.redis.close();
  }

  private tell(): void {
    this.telling = this.tellOnce();
  }

  private async tellOnce(): Promise<void> {
    try {
      await this.redis.publish(this.id, JSON.stringify(this.summary()), SUMMARY_TTL_MS);
    } catch {
      // Nobody here needs it, and of an outage whoever reads the settings tells.
    }
    if (this.closed !== undefined) return;
    this.timer = setTimeout(() => this.tell(), PUBLISH_EVERY_MS);
    this.timer.unref();
  }

  private summary(): InstanceSummary {
    const { id, startedAt, activity, options } = this;
    return {
      id,
      name: options.name ?? 'library',
      kind: 'library',
      version: '',
      startedAt,
      publishedAt: new Date().toISOString(),
      configHash: '',
      decisions: activity.sums(),
      activity: activity.snapshot(PUBLISHED_KEYS),
      policies: options.policies.map(({ name, algorithm, numbers }) => ({
        name,
        algorithm,
        numbers: typeof numbers === 'object' && numbers !== null ? { ...numbers } : {},
      })),
      more: {},
    };
  }

  private configured(policy: string, key: string): object | null {
    try {
      return this.options.configured?.(policy, key) ?? null;
    } catch (error) {
      complain('configured', error);
      return null;
    }
  }

  private warn(warning: FleetWarning): void {
    const { onWarning } = this.options;
    if (onWarning === undefined) return processWarning(warning.message, warning.code);
    try {
      onWarning(warning);
    } catch (error) {
      complain('onWarning', error);
    }
  }
}

function requireOptions(options: JoinFleetOptions): void {
  requireOptionNames('The options of joinFleet()', options, OPTIONS);
  const { policies, name, limiter, configured, onWarning } = options;
  if (!Array.isArray(policies) || policies.length === 0 || policies.length > PUBLISHED_POLICIES) {
    const found = Array.isArray(policies) ? `${policies.length} policies` : show(policies);
    invalid(
      `policies has ${found}; expected a list of 1 to ${PUBLISHED_POLICIES}, such as [tokenBucket({ name: 'api', ... })].`,
    );
  }
  const names = policies.map((policy: Policy) => policy.name);
  const twice = names.find((each, at) => names.indexOf(each) !== at);
  if (twice !== undefined) {
    invalid(`policies has ${show(twice)} twice; operators name a policy by its name: give each its own.`);
  }
  if (name !== undefined && (typeof name !== 'string' || name === '' || name.length > MAX_NAME_LENGTH)) {
    invalid(`name is ${show(name)}; expected a text of 1 to ${MAX_NAME_LENGTH} characters.`);
  }
  if (limiter !== undefined && typeof limiter.on !== 'function') {
    invalid(`limiter is ${show(limiter)}; expected a limiter of createLimiter().`);
  }
  for (const [option, value] of Object.entries({ configured, onWarning })) {
    if (value !== undefined && typeof value !== 'function') {
      invalid(`${option} is ${show(value)}; expected a function, or nothing.`);
    }
  }
}

function wordsOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : show(cause);
}

function invalid(message: string): never {
  throw new LimiterError('INVALID_OPTION', message);
}

import { openRedisCommands, type RedisCommands } from '../stores/redis/redis-commands.ts';
import type { RedisStoreOptions } from '../stores/redis/redis-options.ts';
import { DEFAULT_PREFIX } from '../stores/redis/redis-options.ts';
import {
  MAX_KEY_SETTINGS,
  readSetting,
  settingId,
  type KeySetting,
  type KeySettingId,
} from './key-setting.ts';
import { tooManySettings, type SettingsStore, type StoredSettings } from './shared-settings.ts';

/** What the instances of a fleet tell each other through Redis. */
export interface RedisFleet extends SettingsStore {
  /** Tells about an instance, for `ttlMs`. */
  publish(id: string, summary: string, ttlMs: number): Promise<void>;
  /** What the instances told that still live. */
  summaries(): Promise<readonly string[]>;
  /** An instance ends. */
  withdraw(id: string): Promise<void>;
}

/** A read may bring 10,000 settings; nobody's request waits for it. */
const TIMEOUT_MS = 2000;
const MAX_INSTANCES = 1000;
/** Room for two lists of 50 keys of 512 characters, were each of them an escape in JSON, and as much for the rest. */
const MAX_SUMMARY_LENGTH = 524_288;

// All keys have one hash tag: in a cluster they are on one server.

/** The version stands in the same hash as the settings, so that one call reads both. */
const READ = `
local version = redis.call('HGET', KEYS[1], '#') or ''
if version == ARGV[1] then return {version} end
return {version, redis.call('HGETALL', KEYS[1])}`;

const WRITE = `
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 and redis.call('HLEN', KEYS[1]) > tonumber(ARGV[4]) then return 0 end
redis.call('HSET', KEYS[1], '#', ARGV[1], ARGV[2], ARGV[3])
return 1`;

/** Removes fields, or with a text behind each only those that still have it. */
const REMOVE = `
local removed = 0
for at = 2, #ARGV, 2 do
  local found = redis.call('HGET', KEYS[1], ARGV[at])
  if found and (ARGV[at + 1] == '' or ARGV[at + 1] == found) then
    removed = removed + redis.call('HDEL', KEYS[1], ARGV[at])
  end
end
if removed > 0 then redis.call('HSET', KEYS[1], '#', ARGV[1]) end
return removed`;

/** The index forgets instances that have not told about themselves in time, and above its bound the oldest. */
const PUBLISH = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[3]), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[4]))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', 2 * ARGV[3]))
return 1`;

export function openRedisFleet(options: RedisStoreOptions): RedisFleet {
  const { prefix = DEFAULT_PREFIX, timeoutMs = 0 } = options;
  const redis = openRedisCommands({ ...options, timeoutMs: Math.max(timeoutMs, TIMEOUT_MS) });
  const name = (text: string): string => `${prefix}{fleet}:${text}`;
  return new CommandFleet(redis, name);
}

class CommandFleet implements RedisFleet {
  private readonly redis: RedisCommands;
  private readonly name: (text: string) => string;
  private readonly settings: string;
  private readonly index: string;

  constructor(redis: RedisCommands, name: (text: string) => string) {
    this.redis = redis;
    this.name = name;
    this.settings = name('settings');
    this.index = name('instances');
  }

  async read(known: string | undefined): Promise<StoredSettings | undefined> {
    // No version is like this: an empty hash is read too.
    const reply = await this.evaluate(READ, [this.settings], [known ?? '-']);
    const [version, fields] = listOf(reply);
    if (fields === undefined) return undefined;
    return { version: textOf(version), settings: settingsIn(listOf(fields).map(textOf)) };
  }

  async write(setting: KeySetting): Promise<void> {
    const args = [newVersion(), settingId(setting), JSON.stringify(setting), String(MAX_KEY_SETTINGS)];
    const written = await this.evaluate(WRITE, [this.settings], args);
    if (Number(written) !== 1) throw tooManySettings();
  }

  async remove(id: KeySettingId): Promise<void> {
    await this.evaluate(REMOVE, [this.settings], [newVersion(), settingId(id), '']);
  }

  async discard(settings: readonly KeySetting[]): Promise<void> {
    const pairs = settings.flatMap((each) => [settingId(each), JSON.stringify(each)]);
    await this.evaluate(REMOVE, [this.settings], [newVersion(), ...pairs]);
  }

  async publish(id: string, summary: string, ttlMs: number): Promise<void> {
    if (summary.length > MAX_SUMMARY_LENGTH) {
      throw new RangeError(
        `a summary has ${summary.length} characters; expected at most ${MAX_SUMMARY_LENGTH}`,
      );
    }
    const args = [id, summary, String(ttlMs), String(MAX_INSTANCES)];
    await this.evaluate(PUBLISH, [this.index, this.summaryName(id)], args);
  }

  async summaries(): Promise<readonly string[]> {
    const { index } = this;
    const ids = listOf(await this.redis.run(index, 'ZRANGE', [index, '0', String(MAX_INSTANCES - 1)]));
    if (ids.length === 0) return [];
    const names = ids.map((id) => this.summaryName(textOf(id)));
    const texts = listOf(await this.redis.run(index, 'MGET', names));
    // Those that are too old have no summary any more.
    return texts.filter((text) => text !== null && text !== undefined).map(textOf);
  }

  async withdraw(id: string): Promise<void> {
    const { index } = this;
    await this.redis.run(index, 'ZREM', [index, id]);
    await this.redis.run(index, 'DEL', [this.summaryName(id)]);
  }

  async close(): Promise<void> {
    await this.redis.close();
  }

  private summaryName(id: string): string {
    return this.name(`instance:${id}`);
  }

  private async evaluate(source: string, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return this.redis.run(keys[0] ?? '', 'EVAL', [source, String(keys.length), ...keys, ...args]);
  }
}

/** Random rather than counted: a replica that lacks the last changes must not come to the same number again. */
function newVersion(): string {
  return crypto.randomUUID();
}

function settingsIn(fields: readonly string[]): readonly KeySetting[] {
  return fields.flatMap((text, at) => {
    const setting = at % 2 === 1 && fields[at - 1] !== '#' ? readSetting(text) : undefined;
    return setting === undefined ? [] : [setting];
  });
}

function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : [];
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : String(value);
}

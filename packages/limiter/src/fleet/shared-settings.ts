import { LimiterError } from '../errors.ts';
import type { AppliedSettings, SettingsChange } from './applied-settings.ts';
import {
  hasExpired,
  MAX_KEY_SETTINGS,
  settingId,
  type KeySetting,
  type KeySettingId,
} from './key-setting.ts';

/** Everything that a store holds at one moment. */
export interface StoredSettings {
  /** Another one after every change. */
  readonly version: string;
  readonly settings: readonly KeySetting[];
}

/** Where settings are kept. */
export interface SettingsStore {
  /** What is there now; undefined if it still has the given version. Rejects if that cannot be found out. */
  read(known: string | undefined): Promise<StoredSettings | undefined>;
  /** Rejects if it cannot be kept; a store that is full rejects with `TOO_MANY_OVERRIDES`. */
  write(setting: KeySetting): Promise<void>;
  remove(id: KeySettingId): Promise<void>;
  /** Drops settings that are still exactly these. */
  discard(settings: readonly KeySetting[]): Promise<void>;
  close(): Promise<void>;
}

export interface SharedSettingsOptions {
  readonly store: SettingsStore;
  /** Where they hold. What else was put on it goes when the store has been read. */
  readonly applied: AppliedSettings;
  /** Hears of every change in the same turn. */
  changed?(change: SettingsChange): void;
  /** The store could not be read; at most once per outage. */
  unreadable?(error: unknown): void;
}

/** Settings are asked for so often: with the way to the store they hold everywhere within a second. */
const FOLLOW_EVERY_MS = 400;

/** Settings that several processes share through a store. While it cannot be read, what was read last holds. */
export class SharedSettings {
  private readonly options: SharedSettingsOptions;
  private version: string | undefined;
  private last: Promise<unknown> = Promise.resolve();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isUnreadable = false;
  private stopped = false;

  constructor(options: SharedSettingsOptions) {
    this.options = options;
  }

  /** Resolves when the settings of the store hold here, or cannot be read; then follows them. */
  async start(): Promise<void> {
    await this.follow();
  }

  /** Resolves when the store has it and it holds here. Rejects if that is not certain. */
  async set(setting: KeySetting): Promise<void> {
    await this.inTurn(async () => {
      await this.options.store.write(setting);
      this.use({ set: [setting], removed: [] });
    });
  }

  /** False if there was none. */
  async remove(id: KeySettingId): Promise<boolean> {
    return this.inTurn(async () => {
      const known = this.options.applied.find(id) !== undefined;
      await this.options.store.remove(id);
      this.use({ set: [], removed: [id] });
      return known;
    });
  }

  /** Whoever opened the store closes it. */
  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  private async follow(): Promise<void> {
    try {
      await this.inTurn(async () => this.readOnce());
      this.isUnreadable = false;
    } catch (error) {
      if (!this.isUnreadable && !this.stopped) this.options.unreadable?.(error);
      this.isUnreadable = true;
    }
    if (this.stopped) return;
    this.expire();
    this.timer = setTimeout(() => void this.follow(), FOLLOW_EVERY_MS);
    this.timer.unref();
  }

  /** One after the other: what was read before a change must not be put in its place. */
  private async inTurn<Value>(work: () => Promise<Value>): Promise<Value> {
    const turn = this.last.then(work);
    this.last = turn.catch(() => undefined);
    return turn;
  }

  private use(change: SettingsChange): void {
    this.options.applied.change(change);
    this.tell(change);
  }

  private async readOnce(): Promise<void> {
    const { store } = this.options;
    const found = await store.read(this.version);
    if (found === undefined || this.stopped) return;
    this.version = found.version;
    // An expiry is a time of day, by the wall clock of whoever gave it.
    const nowMs = Date.now();
    this.tell(this.options.applied.replace(found.settings, nowMs));
    const expired = found.settings.filter((each) => hasExpired(each, nowMs));
    if (expired.length > 0) await store.discard(expired);
  }

  private expire(): void {
    // By the wall clock, as above.
    this.tell(this.options.applied.expire(Date.now()));
  }

  private tell(change: SettingsChange): void {
    if (change.set.length > 0 || change.removed.length > 0) this.options.changed?.(change);
  }
}

/** Settings of this process alone. */
export class OwnSettings implements SettingsStore {
  private readonly settings = new Map<string, KeySetting>();
  private changes = 0;

  constructor(settings: readonly KeySetting[] = []) {
    for (const each of settings) this.settings.set(settingId(each), each);
  }

  all(): readonly KeySetting[] {
    return [...this.settings.values()];
  }

  async read(known: string | undefined): Promise<StoredSettings | undefined> {
    const version = String(this.changes);
    return version === known ? undefined : { version, settings: this.all() };
  }

  async write(setting: KeySetting): Promise<void> {
    const id = settingId(setting);
    if (!this.settings.has(id) && this.settings.size >= MAX_KEY_SETTINGS) throw tooManySettings();
    this.settings.set(id, setting);
    this.changes += 1;
  }

  async remove(id: KeySettingId): Promise<void> {
    if (this.settings.delete(settingId(id))) this.changes += 1;
  }

  async discard(settings: readonly KeySetting[]): Promise<void> {
    for (const each of settings) await this.remove(each);
  }

  /** Goes back to these. */
  reset(settings: readonly KeySetting[]): void {
    this.settings.clear();
    for (const each of settings) this.settings.set(settingId(each), each);
    this.changes += 1;
  }

  async close(): Promise<void> {
    await Promise.resolve();
  }
}

export function tooManySettings(): LimiterError {
  return new LimiterError(
    'TOO_MANY_OVERRIDES',
    `There are ${MAX_KEY_SETTINGS} overrides and blocks, the most that are kept: remove some, or write them into the configuration.`,
  );
}

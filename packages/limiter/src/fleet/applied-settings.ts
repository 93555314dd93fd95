import type { Policy } from '../limit.ts';
import { hasExpired, settingId, type KeySetting, type KeySettingId } from './key-setting.ts';

/** What settings are put on. */
export interface SettingsTarget {
  /** Every policy in use, by name. */
  policies(): ReadonlyMap<string, Policy>;
  /** The numbers that a key has without a setting; null: those of the policy. */
  configured(policy: string, key: string): object | null;
  /** A setting does not fit the policy here: the key has what it would have without. */
  rejected(setting: KeySetting, error: unknown): void;
}

/** What became other than it was. */
export interface SettingsChange {
  readonly set: readonly KeySetting[];
  readonly removed: readonly KeySettingId[];
}

/**
 * The settings of one process, put on its policies. Every change is made in one turn of the event loop, and a key goes
 * from its old numbers to its new ones at once: no request is decided by a part of it.
 */
export class AppliedSettings {
  private readonly target: SettingsTarget;
  private readonly settings = new Map<string, KeySetting>();

  constructor(target: SettingsTarget) {
    this.target = target;
  }

  all(): readonly KeySetting[] {
    return [...this.settings.values()];
  }

  find(id: KeySettingId): KeySetting | undefined {
    return this.settings.get(settingId(id));
  }

  /** These and no others. */
  replace(settings: readonly KeySetting[], nowMs: number): SettingsChange {
    const next = new Map(
      settings.filter((each) => !hasExpired(each, nowMs)).map((each) => [settingId(each), each]),
    );
    const change = {
      set: [...next].filter(([id, each]) => !isSame(each, this.settings.get(id))).map(([, each]) => each),
      removed: [...this.settings].filter(([id]) => !next.has(id)).map(([, each]) => each),
    };
    this.change(change);
    return change;
  }

  /** What has come to its end. */
  expire(nowMs: number): SettingsChange {
    const removed = this.all().filter((each) => hasExpired(each, nowMs));
    const change = { set: [], removed };
    this.change(change);
    return change;
  }

  change({ set, removed }: SettingsChange): void {
    for (const setting of set) this.settings.set(settingId(setting), setting);
    for (const id of removed) this.settings.delete(settingId(id));
    for (const id of [...set, ...removed]) this.apply(id);
  }

  /** The policies are new ones. */
  reapply(): void {
    for (const setting of this.settings.values()) this.apply(setting);
  }

  private apply({ policy: name, key }: KeySettingId): void {
    const policy = this.target.policies().get(name);
    if (policy === undefined) return;
    const override = this.find({ kind: 'override', policy: name, key });
    const block = this.find({ kind: 'block', policy: name, key });
    const isOverridden =
      override !== undefined && this.isUsable(override, () => policy.override(key, override.numbers ?? null));
    if (!isOverridden) policy.override(key, this.target.configured(name, key));
    const isBlocked = block !== undefined && this.isUsable(block, () => policy.block(key, endOf(block)));
    if (!isBlocked) policy.block(key, null);
  }

  /** What cannot be used here must not keep others from holding. */
  private isUsable(setting: KeySetting, use: () => void): boolean {
    try {
      use();
      return true;
    } catch (error) {
      this.target.rejected(setting, error);
      return false;
    }
  }
}

function endOf({ expiresAt }: KeySetting): number {
  return expiresAt === undefined ? Infinity : Date.parse(expiresAt);
}

function isSame(one: KeySetting, other: KeySetting | undefined): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

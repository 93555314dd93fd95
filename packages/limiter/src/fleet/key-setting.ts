import { MAX_KEY_LENGTH } from '../limit.ts';

/** What an operator gave to one key of a policy at run time. */
export interface KeySetting {
  /** Other numbers, or the denial of everything. */
  readonly kind: 'override' | 'block';
  readonly policy: string;
  /** As it is counted: never a secret. */
  readonly key: string;
  /** Of an override: options of the policy, durations as texts such as `30s`. */
  readonly numbers?: Readonly<Record<string, number | string>> | undefined;
  /** By the clock of whoever gave it, ISO 8601. */
  readonly setAt: string;
  /** When it ends by itself; undefined: when somebody removes it. */
  readonly expiresAt?: string | undefined;
  /** Who gave it. */
  readonly by?: string | undefined;
  /** Why. */
  readonly note?: string | undefined;
}

export type KeySettingId = Pick<KeySetting, 'kind' | 'policy' | 'key'>;

export const MAX_KEY_SETTINGS = 10_000;
export const MAX_NOTE_LENGTH = 500;

/** The same text for the same setting, and for no other. */
export function settingId({ kind, policy, key }: KeySettingId): string {
  return JSON.stringify([kind, policy, key]);
}

export function hasExpired({ expiresAt }: KeySetting, nowMs: number): boolean {
  return expiresAt !== undefined && Date.parse(expiresAt) <= nowMs;
}

/** A setting as a store keeps it; undefined for what is none, or was written by a later version with other kinds. */
export function readSetting(text: string): KeySetting | undefined {
  const value = parsed(text);
  if (typeof value !== 'object' || value === null) return undefined;
  const field = (name: string): unknown =>
    Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined;
  const [kind, policy, key, setAt] = [field('kind'), field('policy'), field('key'), field('setAt')];
  const [numbers, expiresAt] = [field('numbers'), field('expiresAt')];
  if (kind !== 'override' && kind !== 'block') return undefined;
  if (typeof policy !== 'string' || typeof key !== 'string') return undefined;
  if (key === '' || key.length > MAX_KEY_LENGTH) return undefined;
  if (!isTime(setAt) || (expiresAt !== undefined && !isTime(expiresAt))) return undefined;
  const read = kind === 'override' ? readNumbers(numbers) : undefined;
  if (kind === 'override' && read === undefined) return undefined;
  return {
    kind,
    policy,
    key,
    setAt,
    ...(read === undefined ? {} : { numbers: read }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...noteOf('by', field('by')),
    ...noteOf('note', field('note')),
  };
}

function readNumbers(value: unknown): Readonly<Record<string, number | string>> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const entries: [string, number | string][] = [];
  for (const [name, each] of Object.entries<unknown>({ ...value })) {
    if (typeof each !== 'number' && typeof each !== 'string') return undefined;
    entries.push([name, each]);
  }
  return Object.fromEntries(entries);
}

function noteOf(name: 'by' | 'note', value: unknown): Partial<Pick<KeySetting, 'by' | 'note'>> {
  return typeof value === 'string' && value.length <= MAX_NOTE_LENGTH ? { [name]: value } : {};
}

function isTime(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 40 && Number.isFinite(Date.parse(value));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

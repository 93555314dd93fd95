import { randomUUID } from 'node:crypto';
import { readFileSync, mkdirSync, statSync, type Stats } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { join, dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import {
  openRedisFleet,
  OwnSettings,
  readSetting,
  type KeySetting,
  type KeySettingId,
  type SettingsStore,
} from 'spillgate/internal';
import type { RedisStoreOptions } from 'spillgate/redis';
import type { Config } from '../config/config.ts';
import { SettingError } from '../config/problem.ts';
import { redisOptions } from '../external/redis-client.ts';
import type { FleetStore } from './fleet-view.ts';

/** Where a fleet meets, and what that depends on. */
export interface ConfiguredFleetStore extends FleetStore {
  readonly plan: FleetPlan;
}

interface FleetPlan {
  readonly redis: RedisStoreOptions | undefined;
  readonly folder: string | undefined;
}

/** The store that a configuration asks for; the given one if that is it. */
export function configuredFleetStore(config: Config, current?: ConfiguredFleetStore): ConfiguredFleetStore {
  const { redis, state_dir: folder } = config;
  const plan: FleetPlan = {
    redis: redis && redisOptions({ section: 'redis', config: redis }),
    folder: redis === undefined ? folder : undefined,
  };
  if (current !== undefined && isDeepStrictEqual(current.plan, plan)) return current;
  return openStore(plan);
}

function openStore(plan: FleetPlan): ConfiguredFleetStore {
  if (plan.redis !== undefined) {
    const fleet = openRedisFleet(plan.redis);
    return { plan, keptIn: 'redis', settings: fleet, instances: fleet, close: async () => fleet.close() };
  }
  const settings = plan.folder === undefined ? new OwnSettings() : new FileSettings(plan.folder);
  return {
    plan,
    keptIn: plan.folder === undefined ? 'memory' : 'file',
    settings,
    instances: undefined,
    close: async () => settings.close(),
  };
}

const FILE_NAME = 'overrides.json';
const FORMAT = 1;

/** Settings in a file, which outlive the process. It is replaced as a whole: nobody finds a half of it. */
export class FileSettings implements SettingsStore {
  private readonly file: string;
  private readonly own: OwnSettings;
  private writing: Promise<unknown> = Promise.resolve();

  /** Throws a `SettingError` if the folder cannot be used, or the file is not ours. */
  constructor(folder: string) {
    this.file = join(folder, FILE_NAME);
    createFolder(folder);
    this.own = new OwnSettings(readSettings(this.file));
  }

  async read(known: string | undefined): ReturnType<SettingsStore['read']> {
    return this.own.read(known);
  }

  async write(setting: KeySetting): Promise<void> {
    await this.change(async () => this.own.write(setting));
  }

  async remove(id: KeySettingId): Promise<void> {
    await this.change(async () => this.own.remove(id));
  }

  async discard(settings: readonly KeySetting[]): Promise<void> {
    await this.change(async () => this.own.discard(settings));
  }

  async close(): Promise<void> {
    await this.writing;
  }

  /** One after the other: two writers must not take each other's temporary file for the last word. */
  private async change(make: () => Promise<void>): Promise<void> {
    const turn = this.changeAfter(this.writing, make);
    this.writing = turn.catch(() => undefined);
    await turn;
  }

  private async changeAfter(before: Promise<unknown>, make: () => Promise<void>): Promise<void> {
    await before;
    const known = this.own.all();
    try {
      await make();
      await this.save();
    } catch (failure) {
      // Whoever asked hears that it is not kept: then it must not hold either, nor be saved with the next change.
      this.own.reset(known);
      throw failure;
    }
  }

  private async save(): Promise<void> {
    const temporary = `${this.file}.${randomUUID()}.tmp`;
    try {
      const handle = await open(temporary, 'wx', 0o600);
      try {
        const content = { format: FORMAT, settings: this.own.all() };
        await handle.writeFile(`${JSON.stringify(content, undefined, 2)}\n`);
        // Before it takes the place of the other: a crash must not leave an empty file.
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(temporary, this.file);
    } catch (failure) {
      await rm(temporary, { force: true });
      throw failure;
    }
  }
}

function readSettings(file: string): readonly KeySetting[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (failure) {
    if (codeOf(failure) === 'ENOENT') return [];
    throw notOurs(file, codeOf(failure), failure);
  }
  try {
    const value: unknown = JSON.parse(text);
    const list: unknown =
      typeof value === 'object' && value !== null ? Reflect.get(value, 'settings') : undefined;
    if (!Array.isArray(list)) throw new TypeError('no list of settings');
    return list.flatMap((each: unknown) => readSetting(JSON.stringify(each)) ?? []);
  } catch (failure) {
    throw notOurs(file, 'not as the gateway writes it', failure);
  }
}

function notOurs(file: string, why: string, cause: unknown): SettingError {
  return new SettingError(
    ['state_dir'],
    `state_dir: ${file} cannot be read (${why})`,
    'Restore it, or remove it: then all overrides and blocks that were set at run time are gone.',
    { cause },
  );
}

function codeOf(failure: unknown): string {
  return failure instanceof Error && 'code' in failure ? String(failure.code) : 'unknown error';
}

const PATH = ['state_dir'];
const ADVICE = 'Name a folder that the gateway may write to.';

/** Throws a `SettingError` if something that is not a folder stands in the way. Changes nothing. */
export function usableFolder(folder: string | undefined): void {
  if (folder === undefined) return;
  const found = lookAt(folder);
  if (found === undefined && dirname(folder) !== folder) return usableFolder(dirname(folder));
  if (found?.isDirectory() === true) return;
  throw new SettingError(PATH, `state_dir: ${folder} is not a folder`, ADVICE);
}

/** Creates what is missing. Throws a `SettingError` if that fails. */
export function createFolder(folder: string): void {
  try {
    createWithParents(folder);
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error';
    throw new SettingError(PATH, `state_dir: ${folder} cannot be created (${code})`, ADVICE, { cause });
  }
}

/** Step by step: `recursive` of Node.js does not end in folders that take no others, such as /proc. */
function createWithParents(folder: string): void {
  if (isFolder(folder)) return;
  if (dirname(folder) !== folder) createWithParents(dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (failure) {
    // Another process may have been faster.
    if (!isFolder(folder)) throw failure;
  }
}

function isFolder(path: string): boolean {
  return lookAt(path)?.isDirectory() === true;
}

/** Undefined if there is nothing, or nothing that this process may see. */
function lookAt(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}

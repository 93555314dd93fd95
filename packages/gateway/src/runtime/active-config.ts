import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { ConfigCheck, ConfigInUse, ReloadRecord, ReloadResult } from '../admin/control.ts';
import type { Config } from '../config/config.ts';
import { configDifferences } from '../config/differences.ts';
import type { LoadedConfig } from '../config/load-config.ts';
import type { Path } from '../config/path.ts';
import { SettingError, type ConfigProblem } from '../config/problem.ts';
import type { ReadConfigAgain } from './gateway.ts';
import { SerialQueue, type PreparedChange } from './listen.ts';
import { fileProblems } from './named-files.ts';
import {
  buildConfigRuntime,
  closeConfigRuntime,
  discardConfigRuntime,
  retireConfigRuntime,
  sameConfigRuntime,
  type ReadConfig,
  type ConfigRuntime,
  type ConfigRuntimeTools,
} from './config-runtime.ts';

/** A configuration cannot be used; `problems` says why, all at once. */
export class ConfigRefused extends Error {
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    super('the configuration cannot be used');
    this.problems = problems;
  }
}

export interface ActiveConfigParts {
  /** Reads the file and the environment at the start. */
  readonly readConfig: () => LoadedConfig;
  /** The same for every reload, while requests wait for this process. Default: `readConfig`. */
  readonly readConfigAgain?: ReadConfigAgain | undefined;
  readonly tools: ConfigRuntimeTools;
  /**
   * Makes ready what a runtime needs beside itself, such as ports; rejects if that cannot be, and then nothing has
   * changed.
   */
  readonly prepare: (next: ConfigRuntime) => Promise<PreparedChange>;
  /** Called in the same turn in which the new runtime is taken into use. */
  readonly swapped: (runtime: ConfigRuntime) => void;
}

/** A configuration that only has to be taken into use. */
interface Prepared {
  readonly next: ConfigRuntime;
  readonly change: PreparedChange;
  readonly warnings: readonly ConfigProblem[];
}

/** Of those that operators are told about. */
const MAX_RELOADS = 20;

/** The runtime in use. It is replaced as a whole, or stays as it is. */
export class ActiveConfig {
  private readonly parts: ActiveConfigParts;
  private readonly queue = new SerialQueue();
  /** One at a time: each may take a thread. */
  private readonly checks = new SerialQueue();
  /**
   * Takes the configuration into use as it is written now. What takes time or can fail is done before, and the rest in
   * one turn: no request sees a half of it. Reloads do not overlap.
   */
  readonly reload = this.queue.coalesced(async (): Promise<ReloadResult> => {
    const before = this.runtime.config;
    const result = await this.attempt();
    const differences =
      result.outcome === 'applied'
        ? configDifferences(before, this.runtime.config, this.runtime.keys)
        : undefined;
    this.past = [{ ...result, at: new Date(), differences }, ...this.past].slice(0, MAX_RELOADS);
    return result;
  });
  private runtime: ConfigRuntime;
  private generation = 1;
  private loadedAt = new Date();
  /** No request waits for rules that were replaced: older ones may use what the last one lets go. */
  private idle: Promise<unknown> = Promise.resolve();
  private past: readonly ReloadRecord[] = [];
  private prepared: Prepared | undefined;
  private readonly retiring = new Set<ConfigRuntime>();
  private stopped = false;

  private constructor(parts: ActiveConfigParts, runtime: ConfigRuntime) {
    this.parts = parts;
    this.runtime = runtime;
  }

  /** Rejects with `ConfigRefused`. */
  static async start(parts: ActiveConfigParts): Promise<ActiveConfig> {
    const loaded = parts.readConfig();
    if (!loaded.ok) throw new ConfigRefused(loaded.problems);
    const wrongFiles = problemsOfFiles(loaded);
    if (wrongFiles.length > 0) throw new ConfigRefused(wrongFiles);
    try {
      return new ActiveConfig(parts, await buildConfigRuntime(loaded, parts.tools));
    } catch (failure) {
      throw new ConfigRefused(problemsOf(failure, loaded));
    }
  }

  /** A function of its own: every request calls it, without a way through those who pass it on. */
  readonly current = (): ConfigRuntime => this.runtime;

  live(): ConfigInUse {
    const { generation, loadedAt } = this;
    return { ...this.runtime.read, generation, loadedAt };
  }

  lastReload(): ReloadRecord | undefined {
    return this.past[0];
  }

  /** The latest first. */
  reloads(): readonly ReloadRecord[] {
    return this.past;
  }

  /**
   * What a text would change, or the file as it is now. Nothing is opened for it; of a text, the files that it names
   * are not even looked at: whoever sends one must not learn which files there are.
   */
  readonly check = async (text: string | undefined): Promise<ConfigCheck> =>
    this.checks.run(async () => {
      const loaded = await this.read(text);
      if (!loaded.ok) return { problems: loaded.problems, differences: undefined };
      const { config } = this.runtime;
      const wrong = [
        ...fixedSettingProblems(config, loaded),
        ...(text === undefined ? problemsOfFiles(loaded, config) : []),
      ];
      return {
        problems: [...wrong, ...loaded.problems],
        differences: wrong.length > 0 ? undefined : configDifferences(config, loaded.config),
      };
    });

  /**
   * The first half of a reload: everything that can go wrong. Answers with what does; the next reload of the same text
   * cannot fail.
   */
  async prepare(): Promise<readonly ConfigProblem[]> {
    return this.queue.run(async () => {
      const loaded = await this.read();
      this.abandon();
      const made = await this.ready(loaded);
      if ('problems' in made) return made.outcome === 'refused' ? made.problems : [];
      this.prepared = made;
      return [];
    });
  }

  /** What was prepared is not wanted. */
  async abort(): Promise<void> {
    return this.queue.run(async () => {
      this.abandon();
      return Promise.resolve();
    });
  }

  /** No reload from now on; one that has started finishes first. */
  async stop(): Promise<void> {
    this.stopped = true;
    await this.abort();
  }

  /** When no request is left. */
  async close(): Promise<void> {
    await Promise.all([
      closeConfigRuntime(this.runtime),
      ...[...this.retiring].map(async ({ tracing }) => tracing?.tracer.close()),
    ]);
  }

  private async attempt(): Promise<ReloadResult> {
    const loaded = await this.read();
    const { prepared } = this;
    if (prepared !== undefined && loaded.ok && loaded.fileText === prepared.next.read.fileText) {
      this.prepared = undefined;
      return this.take(prepared);
    }
    this.abandon();
    const made = await this.ready(loaded);
    return 'problems' in made ? made : this.take(made);
  }

  /** Everything but the swap. */
  private async ready(loaded: LoadedConfig): Promise<Prepared | ReloadResult> {
    if (this.stopped) return this.refuse([generalProblem('the gateway is shutting down')]);
    if (!loaded.ok) return this.refuse(loaded.problems);
    const { runtime: current } = this;
    let next: ConfigRuntime | undefined;
    try {
      const fixed = fixedSettingProblems(current.config, loaded);
      if (fixed.length > 0) return this.refuse([...fixed, ...loaded.problems]);
      const wrongFiles = problemsOfFiles(loaded, current.config);
      if (wrongFiles.length > 0) return this.refuse([...wrongFiles, ...loaded.problems]);
      next = await buildConfigRuntime(loaded, this.parts.tools, current);
      if (sameConfigRuntime(current, next)) {
        return { outcome: 'unchanged', generation: this.generation, problems: loaded.problems };
      }
      const change = await this.parts.prepare(next);
      return { next, change, warnings: loaded.problems };
    } catch (failure) {
      if (next !== undefined) this.letGo(discardConfigRuntime(next, current));
      return this.refuse([...problemsOf(failure, loaded), ...loaded.problems]);
    }
  }

  private take({ next, change, warnings }: Prepared): ReloadResult {
    const old = this.runtime;
    this.runtime = next;
    this.generation += 1;
    this.loadedAt = new Date();
    this.parts.swapped(next);
    change.commit();
    this.retire(old, next);
    return { outcome: 'applied', generation: this.generation, problems: warnings };
  }

  private abandon(): void {
    const { prepared } = this;
    this.prepared = undefined;
    if (prepared === undefined) return;
    prepared.change.abort();
    this.letGo(discardConfigRuntime(prepared.next, this.runtime));
  }

  /** Whatever goes wrong while a configuration is read, the one in use goes on. */
  private async read(text?: string): Promise<LoadedConfig> {
    const { readConfig, readConfigAgain } = this.parts;
    try {
      return readConfigAgain === undefined ? readConfig() : await readConfigAgain(text);
    } catch (failure) {
      return { ok: false, problems: problemsOf(failure, this.runtime.read) };
    }
  }

  private refuse(problems: readonly ConfigProblem[]): ReloadResult {
    return { outcome: 'refused', generation: this.generation, problems };
  }

  private retire(old: ConfigRuntime, next: ConfigRuntime): void {
    this.idle = Promise.all([this.idle, old.ruleEngine.idle()]);
    this.retiring.add(old);
    this.letGo(retireConfigRuntime(old, next, this.idle).finally(() => this.retiring.delete(old)));
  }

  private letGo(closing: Promise<unknown>): void {
    closing.catch((err: unknown) =>
      this.parts.tools.log.warn({ err }, 'part of an old configuration could not be closed'),
    );
  }
}

function problemsOfFiles(read: ReadConfig, current?: Config): readonly ConfigProblem[] {
  const serverToo =
    !isDeepStrictEqual(read.config.server.tls, current?.server.tls) ||
    !isDeepStrictEqual(read.config.service?.tls, current?.service?.tls);
  const readFile = (path: string): string => readFileSync(path, 'utf8');
  return fileProblems(read, { readFile, serverToo }).map(({ problem }) => problem);
}

function problemsOf(failure: unknown, { originOf }: Pick<ReadConfig, 'originOf'>): readonly ConfigProblem[] {
  if (failure instanceof ConfigRefused) return failure.problems;
  if (failure instanceof SettingError) return [failure.problem(originOf)];
  return [generalProblem(failure instanceof Error ? failure.message.replace(/\.$/, '') : String(failure))];
}

function generalProblem(message: string): ConfigProblem {
  return { severity: 'error', origin: { from: 'default' }, path: '', message, suggestion: undefined };
}

/**
 * What a running process cannot change, each with the place where it was written. One process listens itself; several
 * have a primary one that listens for them, and there is no moment in which the port could go from one to the other
 * without a connection refused. Nor can several leave a port in order: a connection accepted while the last of them
 * leaves would wait forever.
 */
function fixedSettingProblems(current: Config, { config, originOf }: ReadConfig): readonly ConfigProblem[] {
  const before = current.server;
  const now = config.server;
  const problem = (path: Path, message: string, suggestion: string): ConfigProblem => ({
    severity: 'error',
    origin: originOf(path),
    path: path.join('.'),
    message,
    suggestion,
  });
  if ((before.workers === 1) !== (now.workers === 1)) {
    return [
      problem(
        ['server', 'workers'],
        `server.workers cannot change from ${before.workers} to ${now.workers} while the gateway runs: one process is put together differently from several`,
        before.workers === 1
          ? 'Restart the gateway to change it, or change it back to 1.'
          : 'Restart the gateway to change it, or use 2 or more.',
      ),
    ];
  }
  if (now.workers === 1) return [];
  const ports = [
    { path: ['server', 'address'], from: before.address, to: now.address },
    { path: ['service', 'address'], from: current.service?.address, to: config.service?.address },
  ];
  return ports
    .filter(({ from, to }) => from !== to)
    .map(({ path, from = 'none' }) =>
      problem(
        path,
        `${path.join('.')} cannot change while several workers share the port ${from}`,
        'Restart the gateway to change it, or change it back.',
      ),
    );
}

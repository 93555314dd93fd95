import { isDeepStrictEqual } from 'node:util';
import type { LiveConfig, ReloadResult } from '../admin/operated.ts';
import type { LoadedConfig } from '../config/load-config.ts';
import type { Problem } from '../config/problem.ts';
import { fixedSettingProblems } from './fixed-settings.ts';
import { SettingError } from './setting-error.ts';
import { buildSetup, retireSetup, type ReadConfig, type Setup, type SetupTools } from './setup.ts';

/** A configuration cannot be used; `problems` says why, all at once. */
export class ConfigRefused extends Error {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super('the configuration cannot be used');
    this.problems = problems;
  }
}

export interface LiveSetupParts {
  /** Reads the file and the environment again. */
  readonly readConfig: () => LoadedConfig;
  readonly tools: SetupTools;
  /** Called in the same turn in which the new setup is taken into use. */
  readonly swapped: (setup: Setup) => void;
}

/** The setup in use. It is replaced as a whole, or stays as it is. */
export class LiveSetup {
  private readonly parts: LiveSetupParts;
  private setup: Setup;
  private generation = 1;
  private loadedAt = new Date();
  /** No request waits at a gate that was replaced: older ones may use what the last one lets go. */
  private idle: Promise<unknown> = Promise.resolve();
  private last: (ReloadResult & { readonly at: Date }) | undefined;

  /** Throws `ConfigRefused`. */
  constructor(parts: LiveSetupParts) {
    this.parts = parts;
    const loaded = parts.readConfig();
    if (!loaded.ok) throw new ConfigRefused(loaded.problems);
    const built = this.build(loaded);
    if ('problems' in built) throw new ConfigRefused(built.problems);
    this.setup = built;
  }

  current(): Setup {
    return this.setup;
  }

  live(): LiveConfig {
    const { generation, loadedAt } = this;
    return { ...this.setup.read, generation, loadedAt };
  }

  lastReload(): (ReloadResult & { readonly at: Date }) | undefined {
    return this.last;
  }

  /** Takes the configuration into use as it is written now. Nothing of it is asynchronous: no request sees a half of it. */
  reload(): ReloadResult {
    const result = this.attempt();
    this.last = { ...result, at: new Date() };
    return result;
  }

  private attempt(): ReloadResult {
    const loaded = this.read();
    if (!loaded.ok) return this.refuse(loaded.problems);
    const fixed = fixedSettingProblems(this.setup.config, loaded);
    if (fixed.length > 0) return this.refuse([...fixed, ...loaded.problems]);
    const next = this.build(loaded, this.setup);
    if ('problems' in next) return this.refuse([...next.problems, ...loaded.problems]);
    const old = this.setup;
    // Built anew although the text is the same: a file that it names has changed.
    const unchanged =
      isDeepStrictEqual(old.config, next.config) &&
      old.serverTls === next.serverTls &&
      old.limiter === next.limiter &&
      old.upstreams === next.upstreams &&
      old.limitsSource === next.limitsSource;
    if (unchanged) return { outcome: 'unchanged', generation: this.generation, problems: loaded.problems };

    this.setup = next;
    this.generation += 1;
    this.loadedAt = new Date();
    this.parts.swapped(next);
    this.retire(old, next);
    return { outcome: 'applied', generation: this.generation, problems: loaded.problems };
  }

  /** Whatever goes wrong while a configuration is read, the one in use goes on. */
  private read(): LoadedConfig {
    try {
      return this.parts.readConfig();
    } catch (failure) {
      return { ok: false, problems: [problemOf(failure, this.setup.read)] };
    }
  }

  private build(read: ReadConfig, current?: Setup): Setup | { readonly problems: readonly Problem[] } {
    try {
      return buildSetup(read, this.parts.tools, current);
    } catch (failure) {
      return { problems: [problemOf(failure, read)] };
    }
  }

  private refuse(problems: readonly Problem[]): ReloadResult {
    return { outcome: 'refused', generation: this.generation, problems };
  }

  private retire(old: Setup, next: Setup): void {
    const { log } = this.parts.tools;
    this.idle = Promise.all([this.idle, old.gate.idle()]);
    retireSetup(old, next, this.idle).catch((err: unknown) =>
      log.warn({ err }, 'something of the last configuration could not be closed'),
    );
  }
}

function problemOf(failure: unknown, { originOf }: ReadConfig): Problem {
  if (failure instanceof SettingError) return failure.problem(originOf);
  const message = failure instanceof Error ? failure.message.replace(/\.$/, '') : String(failure);
  return { severity: 'error', origin: { from: 'default' }, path: '', message, suggestion: undefined };
}

// Sources under test, and what they tell.
import { createLimitsSource, type LimitsSourceOptions } from '../../src/external/create-limits-source.ts';
import type {
  LimitsQuestion,
  LimitsSourceObserver,
  ObservedLimitsSource,
} from '../../src/external/limits-source.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import type { Config } from '../../src/config/config.ts';

export interface Told {
  /** `step/reason` of every question. */
  readonly steps: string[];
  /** The outcome of every call. */
  readonly calls: string[];
  /** Everything else. */
  readonly events: string[];
  /** Every line of the log. */
  readonly log: string[];
}

export interface TestSource {
  readonly source: ObservedLimitsSource;
  readonly told: Told;
}

export function configOf(settings: object): Config {
  const loaded = loadConfig({ file: { path: 'test.yaml', text: JSON.stringify(settings) } });
  if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join('\n'));
  return loaded.config;
}

export function testSource(
  settings: {
    readonly external: object;
    readonly rate_limit?: object;
    readonly redis?: object;
    readonly cache_redis?: object;
  },
  options: Partial<LimitsSourceOptions> = {},
): TestSource {
  const { external, rate_limit: rateLimit = {}, ...rest } = settings;
  const config = configOf({
    ...rest,
    rate_limit: { average: 7, ...rateLimit, external: { enabled: true, ...external } },
  });
  const told: Told = { steps: [], calls: [], events: [], log: [] };
  const source = createLimitsSource({
    config,
    log: recordingLog(told.log),
    observer: recorder(told),
    ...options,
  });
  return { source, told };
}

export function question(key: string, more: Partial<LimitsQuestion> = {}): LimitsQuestion {
  return { key, method: 'GET', path: '/', headers: { raw: [] }, ...more };
}

/**
 * Fails if a timer of so many milliseconds, started at the same moment, ends first. Timers of one process end in their
 * order, however busy the machine is.
 */
export async function within<Value>(ms: number, pending: Value | Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it took longer than ${ms} ms`)), ms);
  });
  return Promise.race([pending, late]).finally(() => clearTimeout(timer));
}

function recorder({ steps, calls, events }: Told): LimitsSourceObserver {
  return {
    resolved: (step, reason) => steps.push(`${step}/${reason}`),
    asked: (outcome) => calls.push(outcome),
    sharedCache: (operation, outcome) => events.push(`${operation} ${outcome}`),
    breaker: (scope, state) => events.push(`${scope} ${state}`),
    refreshed: () => events.push('refreshed'),
    refused: (field) => events.push(`refused ${field}`),
    changed: (change) => events.push(`changed ${change}`),
  };
}

function recordingLog(lines: string[]) {
  const write = (fields: object, message: string) => void lines.push(`${message} ${JSON.stringify(fields)}`);
  return { debug: write, info: write, warn: write, error: write };
}

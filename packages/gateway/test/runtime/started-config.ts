// A configuration in use, without sockets.
import { onTestFinished } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { limitsMetrics } from '../../src/external/limits-source.ts';
import { ActiveConfig, type ActiveConfigParts } from '../../src/runtime/active-config.ts';
import { keepToPlan } from '../../src/runtime/configured-limiter.ts';
import { NO_CHANGE } from '../../src/runtime/listen.ts';
import { MovedMetrics } from '../../src/telemetry/traffic-tally.ts';

const quiet = (): undefined => undefined;
export const SILENT = { debug: quiet, info: quiet, warn: quiet, error: quiet };

export interface StartedConfig {
  readonly active: ActiveConfig;
  readonly write: (yaml: string) => void;
  readonly swaps: () => number;
}

/** Closed when the test has finished. */
export async function startConfig(
  yaml: string,
  prepare: ActiveConfigParts['prepare'] = async () => Promise.resolve(NO_CHANGE),
): Promise<StartedConfig> {
  let text = yaml;
  let swaps = 0;
  const active = await ActiveConfig.start({
    readConfig: () => {
      if (text === 'throw') throw new Error('planted');
      return loadConfig({ file: { path: 'a.yaml', text } });
    },
    readConfigAgain: async (given = text) => {
      if (given === 'throw') throw new Error('planted');
      return Promise.resolve(loadConfig({ file: { path: 'a.yaml', text: given } }));
    },
    tools: {
      log: SILENT,
      version: '1.2.3',
      limitsObserver: limitsMetrics(new MovedMetrics()),
      onDecision: () => undefined,
      count: () => undefined,
    },
    prepare,
    swapped: ({ limiter }) => {
      swaps += 1;
      keepToPlan(limiter);
    },
  });
  onTestFinished(async () => active.close());
  return {
    active,
    write: (next) => {
      text = next;
    },
    swaps: () => swaps,
  };
}

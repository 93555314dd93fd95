import type { Config } from '../config/config.ts';
import type { Path } from '../config/path.ts';
import type { Problem } from '../config/problem.ts';
import type { ReadConfig } from './setup.ts';

const WORKERS: Path = ['server', 'workers'];

/**
 * What a running process cannot change, each with the place where it was written. One process listens itself; several have a primary one
 * that listens for them, and there is no moment in which the port could go from one to the other without a connection refused.
 */
export function fixedSettingProblems(current: Config, { config, originOf }: ReadConfig): readonly Problem[] {
  const before = current.server.workers;
  const now = config.server.workers;
  if ((before === 1) === (now === 1)) return [];
  return [
    {
      severity: 'error',
      origin: originOf(WORKERS),
      path: 'server.workers',
      message: `server.workers cannot change from ${before} to ${now} while the gateway runs: one process is put together differently from several`,
      suggestion:
        before === 1
          ? 'Restart the gateway to change it, or change it back to 1.'
          : 'Restart the gateway to change it, or use 2 or more.',
    },
  ];
}

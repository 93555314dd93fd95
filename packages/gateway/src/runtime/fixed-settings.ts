import type { Config } from '../config/config.ts';
import type { Path } from '../config/path.ts';
import type { ConfigProblem } from '../config/problem.ts';
import type { ReadConfig } from './setup.ts';

/**
 * What a running process cannot change, each with the place where it was written. One process listens itself; several have a primary one
 * that listens for them, and there is no moment in which the port could go from one to the other without a connection refused. Nor can
 * several leave a port in order: who is accepted while the last of them leaves would wait for ever.
 */
export function fixedSettingProblems(
  current: Config,
  { config, originOf }: ReadConfig,
): readonly ConfigProblem[] {
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
  if (now.workers === 1 || before.address === now.address) return [];
  return [
    problem(
      ['server', 'address'],
      `server.address cannot change while several workers share the port ${before.address}`,
      'Restart the gateway to change it, or change it back.',
    ),
  ];
}

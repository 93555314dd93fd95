import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('../../../scripts/prepare-system.sh', import.meta.url));

/** The suite compares with what Debian has: installed where that is possible without a question. */
export function requirePrograms(): void {
  const { status } = spawnSync('sh', [SCRIPT, 'gateway-bench'], { stdio: 'inherit' });
  if (status !== 0) throw new Error('The suite needs nginx and haproxy; see above.');
}

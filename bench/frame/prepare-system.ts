import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const PREPARE_SYSTEM = fileURLToPath(new URL('../../../scripts/prepare-system.sh', import.meta.url));

/** Installs what the purpose needs and npm cannot bring, without a question; false where that is not possible. */
export function prepareSystem(purpose = 'tests'): boolean {
  return spawnSync('sh', [PREPARE_SYSTEM, purpose], { stdio: ['ignore', 2, 2] }).status === 0;
}

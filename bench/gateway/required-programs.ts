import { spawnSync } from 'node:child_process';

import { provide } from '../envoy/provided.ts';
import { prepareSystem } from '../frame/prepare-system.ts';
import { progress } from '../frame/progress.ts';
import type { Needed, Places } from './candidate.ts';

export interface Inventory {
  readonly programs: Places['programs'];
  readonly has: (needed: Needed) => boolean;
  /** A sentence for each program without which some rows are missing. */
  readonly missing: readonly string[];
}

/** What the suite compares with: installed where that is possible without a question, and left out elsewhere. */
export function takeInventory(): Inventory {
  prepareSystem('gateway-bench');
  const [envoy, ratelimit] = [provide('envoy'), provide('ratelimit')];
  const absent = (['nginx', 'haproxy'] as const).filter((name) => !isInstalled(name));
  const missing = [
    ...absent.map(
      (name) => `Skipped: ${name} is not installed (sh scripts/prepare-system.sh gateway-bench).`,
    ),
    ...[envoy, ratelimit].flatMap((found) => ('missing' in found ? [found.missing] : [])),
  ];
  for (const sentence of missing) progress(sentence);
  const programs = { envoy: envoy.program ?? '', ratelimit: ratelimit.program ?? '' };
  return {
    programs,
    has: (needed) =>
      needed === 'nginx' || needed === 'haproxy' ? !absent.includes(needed) : programs[needed] !== '',
    missing,
  };
}

export function isInstalled(program: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0;
}

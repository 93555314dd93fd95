import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What a test changes or measures for everything in its process: modules, the clock, memory. */
const OF_THE_PROCESS = /\bvi\.(?:mock|useFakeTimers)\(|\b(?:memoryUsage|getHeapSnapshot)\(/;

/** The tests of packages that cannot share a process with others, as paths from the root. */
export function needingOwnProcess(root: string): readonly string[] {
  const packages = readdirSync(join(root, 'packages')).map((name) => `packages/${name}/test`);
  return packages
    .filter((folder) => existsSync(join(root, folder)))
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(
        (path) => `${folder}/${path}`,
      ),
    )
    .filter(
      (path) => path.endsWith('.test.ts') && OF_THE_PROCESS.test(readFileSync(join(root, path), 'utf8')),
    );
}

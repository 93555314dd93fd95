import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { mustRun } from '../../scripts/command.ts';

/** The last release that the Go module proxy serves as a module with its own version. */
const HELM = 'helm.sh/helm/v3/cmd/helm@v3.19.2';
const CACHE = 'build/helm';
const BUILD_WITHIN_MS = 900_000;

/** The program `helm`: the one that is installed, or else one built from its source. Debian has no package of it. */
export async function helmProgram(): Promise<string> {
  const built = resolve(join(CACHE, 'helm'));
  if (existsSync(built)) return built;
  if (await works('helm', ['version'])) return 'helm';
  if (!(await works('go', ['version']))) {
    throw new Error('The chart is checked with helm. Install helm, or Go, with which this test builds it.');
  }
  await mustRun('go', ['install', HELM], {
    deadlineMs: BUILD_WITHIN_MS,
    environment: { GOBIN: resolve(CACHE) },
  });
  return built;
}

async function works(program: string, args: readonly string[]): Promise<boolean> {
  return mustRun(program, args).then(
    () => true,
    () => false,
  );
}

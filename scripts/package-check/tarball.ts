import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun } from '../command.ts';

const PACKAGE_FOLDER = 'packages/limiter';
const PACK_FOLDER = 'build/package';
const EXPECTED_FILES: readonly string[] = ['package.json', 'README.md', 'LICENSE', 'dist/cjs/package.json'];

/** Packs the library exactly as it would be published; answers the tarball's path. */
export async function pack(): Promise<string> {
  await rm(PACK_FOLDER, { recursive: true, force: true });
  await mkdir(PACK_FOLDER, { recursive: true });
  const output = await mustRun('npm', [
    'pack',
    `./${PACKAGE_FOLDER}`,
    '--pack-destination',
    PACK_FOLDER,
    '--loglevel=error',
  ]);
  const name = output.trim().split('\n').at(-1) ?? '';
  const tarball = join(PACK_FOLDER, 'spillgate.tgz');
  await rename(join(PACK_FOLDER, name), tarball);
  return tarball;
}

/** What must not be in a package that is installed: `folder` is where npm put it. */
export function contentProblems(folder: string, files: readonly string[]): string[] {
  const missing = EXPECTED_FILES.filter((file) => !files.includes(file)).map((file) => `${file} is missing`);
  return [...missing, ...manifestProblems(folder), ...files.flatMap((file) => fileProblems(folder, file))];
}

function manifestProblems(folder: string): string[] {
  const manifest: unknown = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  if (typeof manifest !== 'object' || manifest === null) return ['package.json is not an object'];
  return ['dependencies', 'optionalDependencies', 'bundleDependencies', 'scripts'].flatMap((field) =>
    field in manifest ? [`package.json has "${field}"`] : [],
  );
}

function fileProblems(folder: string, file: string): string[] {
  if (EXPECTED_FILES.includes(file)) return [];
  const module = /^dist\/(?:cjs\/)?(.+?)(?:\.d\.ts|\.js)$/.exec(file)?.[1];
  if (module === undefined) return [`${file} has no business in the package`];
  if (module.endsWith('.test')) return [`${file} is a test`];
  // The compiler never deletes: a module that was renamed stays in dist/ until the folder is removed.
  if (!existsSync(join(PACKAGE_FOLDER, 'src', `${module}.ts`)))
    return [`${file} has no source any more; remove dist/`];
  const unfinished = /['"]\.{1,2}\/[^'"]+\.ts['"]/.exec(readFileSync(join(folder, file), 'utf8'));
  return unfinished === null ? [] : [`${file} imports ${unfinished[0]}, which is not in the package`];
}

import { type Check, findInLines, type RepositoryFile } from './tree.ts';

const LOCKFILE = 'package-lock.json';

export const noDownloadAddressesInLockfile: Check = (files) =>
  lockfile(files).flatMap((file) =>
    findInLines(file, /"resolved": "(?:https?|git)[^"]*"/, 'download address'),
  );

/** Their scripts are not run either (`ignore-scripts` in .npmrc), and nobody who installs our packages gets them. */
const HARMLESS_WITHOUT_SCRIPT: ReadonlySet<string> = new Set([
  // Comes with @grpc/grpc-js, the public client that the gateway is tested with; its script only prints.
  'node_modules/protobufjs',
]);

export const noInstallScripts: Check = (files) =>
  lockfile(files).flatMap((file) =>
    [...packagesIn(file)]
      .filter(([, entry]) => entry['hasInstallScript'] === true)
      .filter(([path, entry]) => !(entry['dev'] === true && HARMLESS_WITHOUT_SCRIPT.has(path)))
      .map(([path]) => `${LOCKFILE} ${path} wants to run a script when it is installed`),
  );

/**
 * npm writes a lockfile without a word when it cannot find the build of a native tool for another platform. `npm ci`
 * then refuses that lockfile, or works on one platform only.
 */
export const everyPlatformIsLocked: Check = (files) =>
  lockfile(files).flatMap((file) => {
    const packages = packagesIn(file);
    return [...packages].flatMap(([path, entry]) =>
      Object.keys(recordOf(entry['optionalDependencies']))
        .filter(
          (name) => !packages.has(`node_modules/${name}`) && !packages.has(`${path}/node_modules/${name}`),
        )
        .map((name) => `${LOCKFILE} has no entry for ${name}, which ${path} may need`),
    );
  });

function lockfile(files: readonly RepositoryFile[]): RepositoryFile[] {
  return files.filter(({ path }) => path === LOCKFILE);
}

function packagesIn({ text }: RepositoryFile): Map<string, Readonly<Record<string, unknown>>> {
  const parsed: unknown = JSON.parse(text);
  const packages = recordOf(recordOf(parsed)['packages']);
  return new Map(Object.entries(packages).map(([path, entry]) => [path, recordOf(entry)]));
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {};
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

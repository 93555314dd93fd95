import type { Check, RepositoryFile } from './tree.ts';

interface Manifest {
  readonly license: string | undefined;
  readonly scripts: ReadonlySet<string>;
}

const LICENSE = 'Apache-2.0';

export const packagesAreLicensedAndDescribed: Check = (files) => {
  const paths = new Set(files.map(({ path }) => path));
  return files
    .filter(({ path }) => /^(?:(?:packages\/[^/]+|bench|examples)\/)?package\.json$/.test(path))
    .flatMap((file) => {
      const readme = file.path.replace('package.json', 'README.md');
      return [
        ...(readManifest(file).license === LICENSE
          ? []
          : [`${file.path} does not say "license": "${LICENSE}"`]),
        ...(paths.has(readme) ? [] : [`${readme} is missing`]),
      ];
    });
};

/** Every `npm run …`, `npm test` and `npm start` that a document promises. */
export const documentedScriptsExist: Check = (files) => {
  const root = files.find(({ path }) => path === 'package.json');
  if (root === undefined) return ['package.json is missing'];

  const { scripts } = readManifest(root);
  return files
    .filter(({ path }) => path.endsWith('.md'))
    .flatMap((file) =>
      file.text.split('\n').flatMap((line, index) =>
        [...line.matchAll(/\bnpm (?:run (?:--?[a-z]+ )*([a-z][\w:-]*)|(test|start)\b)/g)]
          .flatMap(([, named, builtIn]) => named ?? builtIn ?? [])
          .filter((name) => !scripts.has(name))
          .map((name) => `${file.path}:${index + 1} names the npm script "${name}", which does not exist`),
      ),
    );
};

function readManifest({ path, text }: RepositoryFile): Manifest {
  const manifest: unknown = JSON.parse(text);
  if (!isRecord(manifest)) throw new TypeError(`${path} is not a JSON object`);
  return {
    license: typeof manifest['license'] === 'string' ? manifest['license'] : undefined,
    scripts: new Set(isRecord(manifest['scripts']) ? Object.keys(manifest['scripts']) : []),
  };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

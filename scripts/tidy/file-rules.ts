import { type Check, findInLines, type RepositoryFile } from './tree.ts';

const MAX_LINES = 400;
const BANNED_WORDS: ReadonlySet<string> = new Set([
  'util',
  'utils',
  'helper',
  'helpers',
  'common',
  'manager',
  'impl',
]);

export const filesAreShort: Check = (files) =>
  files.filter(isWrittenByHand).flatMap((file) => {
    const lines = file.text.replace(/\n$/, '').split('\n').length;
    return lines > MAX_LINES ? [`${file.path} has ${lines} lines, the most is ${MAX_LINES}`] : [];
  });

export const namesSayWhatIsInside: Check = (files) =>
  files.flatMap((file) => {
    const banned = words(file.path).find((word) => BANNED_WORDS.has(word));
    return banned === undefined ? [] : [`${file.path} is named "${banned}", which says nothing about it`];
  });

export const noMachinePaths: Check = (files) =>
  files.flatMap((file) =>
    findInLines(
      file,
      /(?:^|[^\w.~:/])(?:\/(?:home|root|Users|work|tmp)\/[\w.-]+|[A-Z]:\\Users\\\w+)/,
      'absolute path of one machine',
    ),
  );

export const noRegistryHosts: Check = (files) =>
  files.flatMap((file) =>
    findInLines(
      file,
      /\b(?:[\w-]+\.)*(?:npmjs\.(?:org|com)|yarnpkg\.com|npmmirror\.com|npm\.pkg\.github\.com|deb\.debian\.org)\b/i,
      'host name of a package registry',
    ),
  );

export const everyTestRuns: Check = (files) =>
  files
    .filter((file) => file.path.endsWith('.test.ts'))
    .flatMap((file) =>
      findInLines(
        file,
        /\b(?:test|it|describe|suite)(?:\.\w+)*\.(?:only|skip|todo|fails|skipIf|runIf)\b|\b(?:context|ctx)\.skip\(/,
        'test that does not always run',
      ),
    );

function isWrittenByHand({ path }: RepositoryFile): boolean {
  if (path === 'package-lock.json' || path.includes('.generated.')) return false;
  return /\.(?:ts|js|mjs|cjs|lua|sh|md|ya?ml|css|html)$/.test(path) || !/\.\w+$/.test(path);
}

function words(path: string): string[] {
  return path
    .replaceAll(/([a-z])([A-Z])/g, '$1-$2')
    .toLowerCase()
    .split(/[^a-z]+/);
}

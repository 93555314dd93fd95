import { type Check, findInLines, type RepositoryFile } from './tree.ts';

const MAX_LINES = 400;
const MAX_COMMENT_COLUMNS = 120;
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

/** The formatter leaves comments alone. What tells the linter something has to stay on one line. */
export const commentsAreWrapped: Check = (files) =>
  files
    .filter((file) => /\.(?:ts|lua)$/.test(file.path) && isWrittenByHand(file))
    .flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, index) => {
        const isComment = /^\s*(?:\/\/|\/\*|\* |--)/.test(line) && !/^\s*\/[/*] oxlint-/.test(line);
        return isComment && line.length > MAX_COMMENT_COLUMNS
          ? [
              `${path}:${index + 1} is a comment of ${line.length} columns, the most is ${MAX_COMMENT_COLUMNS}`,
            ]
          : [];
      }),
    );

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

/** Behind ` -- ` on the same line. Two words such as "the same" say nothing to who comes there by a search. */
export const disabledChecksSayWhy: Check = (files) =>
  files.flatMap((file) =>
    findInLines(
      file,
      /(?<=(?:^|[;,{}()]) *)\/[/*] *(?:oxlint-disable|@ts-)[\w-]*(?!.* -- .{10})/,
      'check that is switched off without a reason',
    ),
  );

export const testsLieApart: Check = (files) =>
  files
    .filter(({ path }) => /^packages\/[^/]+\/src\/.*\.test\.ts$/.test(path))
    .map(({ path }) => `${path} is a test beside its source; tests lie in the test folder of the package`);

/** Else it is a matter of luck which of the two someone opens. */
export const noFileBesideItsFolder: Check = (files) => {
  const folders = new Set(files.flatMap(({ path }) => foldersOf(path)));
  return files
    .filter(({ path }) => path.includes('/') && folders.has(path.replace(/\.\w+$/, '')))
    .map(({ path }) => `${path} lies beside a folder of the same name`);
};

/**
 * A test that sleeps is slow on a fast machine and fails on a slow one: it waits for an event, or until something
 * holds.
 */
export const noTestSleeps: Check = (files) =>
  files
    .filter(({ path }) => /(?:^|\/)test\/.*\.ts$|\.test\.ts$/.test(path))
    .flatMap((file) =>
      findInLines(
        file,
        /\bsetTimeout\((?:resolve|done|r|\w*[rR]esolve\w*), *\d[\d_]*\)|\bawait (?:sleep|delay|setTimeout|wait)\(\d[\d_]*\)/,
        'sleep in a test',
      ),
    );

/**
 * The system's clock may be set back or forth while a program runs, so nothing may wait or measure by it. Where the
 * time of day is meant, a comment on the line or above it says "wall clock" and why.
 */
export const wallClockIsMeant: Check = (files) =>
  files
    .filter(({ path }) => /^packages\/[^/]+\/src\/.*\.ts$/.test(path) && !path.endsWith('.test.ts'))
    .flatMap(({ path, text }) => {
      const lines = text.split('\n');
      return lines.flatMap((line, index) => {
        const code = line.replaceAll(/'[^']*'|`[^`]*`/g, '');
        const isMeant = /wall clock/i.test(`${lines[index - 1] ?? ''} ${line}`);
        return code.includes('Date.now()') && !isMeant
          ? [`${path}:${index + 1} reads the wall clock, which steps: use performance.now(), or say why`]
          : [];
      });
    });

function isWrittenByHand({ path, text }: RepositoryFile): boolean {
  if (path === 'package-lock.json' || path.includes('.generated.')) return false;
  if (text.startsWith('<!-- Generated from ')) return false;
  return /\.(?:ts|js|mjs|cjs|lua|sh|md|ya?ml|css|html)$/.test(path) || !/\.\w+$/.test(path);
}

function foldersOf(path: string): string[] {
  const end = path.lastIndexOf('/');
  return end < 0 ? [] : [path.slice(0, end), ...foldersOf(path.slice(0, end))];
}

function words(path: string): string[] {
  return path
    .replaceAll(/([a-z])([A-Z])/g, '$1-$2')
    .toLowerCase()
    .split(/[^a-z]+/);
}

// ARCHITECTURE.md names files and folders in two places: on the map, a drawing with a path at the beginning of most
// lines, and in the table that says what to touch. A name there is a path, or its end: `metric-table.ts` is any file of
// that name.
import { posix } from 'node:path';
import type { Check, RepositoryFile } from './tree.ts';

const DOCUMENT = 'ARCHITECTURE.md';
const NAMED = /[\w.*<>-]*(?:\/[\w.*<>-]*)+|[\w*<>][\w.*<>-]*\.(?:ts|lua|md|sh|json|css|html)\b/g;

/** Every file and folder that the map or the table "To add something" names exists. */
export const architectureNamesWhatExists: Check = (files) => {
  const document = files.find(({ path }) => path === DOCUMENT);
  if (document === undefined) return [`${DOCUMENT} is missing`];
  const existing = new Set(files.flatMap(({ path }) => [path, ...folders(path)]));
  return namedIn(document)
    .filter((named) => !exists(named, existing))
    .map(({ line, name, folder }) => {
      const where = folder === '' ? '' : ` in ${folder}`;
      return `${DOCUMENT}:${line} names ${name}, which does not exist${where}`;
    });
};

/** The map shows every folder of the sources and of the tests, and every entry point of the packages. */
export const architectureIsComplete: Check = (files) => {
  const document = files.find(({ path }) => path === DOCUMENT);
  if (document === undefined) return [];
  const map = section(document.text, '## Map')
    .map(({ text }) => text)
    .join('\n');
  return [...foldersToShow(files), ...entryPoints(files)]
    .filter(({ word }) => !word.test(map))
    .map(({ what }) => `${DOCUMENT} does not show ${what} on its map`);
};

interface Shown {
  readonly what: string;
  /** How it looks on the map. */
  readonly word: RegExp;
}

/** Folders directly below `src`, and below the folders of tests. */
function foldersToShow(files: readonly RepositoryFile[]): Shown[] {
  const found = files.flatMap(({ path }) => {
    const inside = /^(?:packages\/[^/]+\/src|(?:packages\/limiter\/)?test)\/([^/]+)\//.exec(path);
    return inside === null ? [] : [inside[0]];
  });
  return [...new Set(found)].map((folder) => {
    const shown = folder.replace(/^packages\/[^/]+\//, '');
    return { what: folder, word: new RegExp(`(?:^|[\\s\`])${shown}`, 'm') };
  });
}

function entryPoints(files: readonly RepositoryFile[]): Shown[] {
  return files
    .filter(({ path }) => /^packages\/[^/]+\/package\.json$/.test(path))
    .flatMap(({ text }) => {
      const manifest: unknown = JSON.parse(text);
      if (!isRecord(manifest) || !isRecord(manifest['exports'])) return [];
      return Object.keys(manifest['exports'])
        .filter((entry) => entry.startsWith('./') && !entry.endsWith('.json'))
        .map((entry) => `${String(manifest['name'])}${entry.slice(1)}`);
    })
    .map((entry) => ({ what: `the entry ${entry}`, word: new RegExp(`\\b${entry}\\b`) }));
}

interface Named {
  readonly line: number;
  readonly name: string;
  /** The folder in which it has to lie, at any depth; empty for the whole repository. */
  readonly folder: string;
  /** The path may also begin here, or at the root of the repository. */
  readonly top: string;
}

function namedIn({ text }: RepositoryFile): Named[] {
  const layers = section(text, '## Layers').filter(({ text: content }) => !/^\s*[│]/.test(content));
  // In the table a name is code or the target of a link.
  const table = section(text, '## To add something').flatMap(({ line, text: content }) =>
    [...content.matchAll(/`([^`]+)`|\]\(([^)#]+)\)/g)].map(([, code, link]) => ({
      line,
      text: code ?? link ?? '',
    })),
  );
  const anywhere = [...layers, ...table].flatMap(({ line, text: content }) =>
    namesIn(content).map((name) => ({ line, name, folder: '', top: '' })),
  );
  return [...namedOnMap(section(text, '## Map')), ...anywhere];
}

/**
 * A line begins with its path, below that of the last line that is indented less; the rest of it is about what lies
 * there.
 */
function namedOnMap(lines: readonly { line: number; text: string }[]): Named[] {
  let top = '';
  let folder = '';
  return lines
    .filter(({ text }) => !text.startsWith('```'))
    .flatMap(({ line, text }) => {
      const [, indent = '', path] = /^( *)(\S+\/\S*|\S+\.\w+)(?: |$)/.exec(text) ?? [];
      if (path !== undefined && indent === '') top = folder = folderOf(path);
      else if (path !== undefined && indent.length < 4) folder = folderOf(`${top}/${path}`);
      return namesIn(text).map((name) => ({ line, name, folder: name === path ? top : folder, top }));
    });
}

function folderOf(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : posix.dirname(path);
}

function namesIn(content: string): string[] {
  return [...content.matchAll(NAMED)].map(([name]) => name).filter((name) => isPathLike(name, content));
}

/** Names of packages and of media types have a slash too. */
function isPathLike(name: string, context: string): boolean {
  if (name.includes('//') || name.startsWith('HTTP/') || /^(?:spillgate(?:-\w+)?|@?\w+\/[\w.-]+@)/.test(name))
    return false;
  return /\w/.test(name) && !/^https?:/.test(context) && !context.startsWith('npm ');
}

/** `<name>` and `*` stand for one word. */
function exists({ name, folder, top }: Named, existing: ReadonlySet<string>): boolean {
  const path = name.replace(/^(?:\.\.?\/)+/, '').replace(/\/$/, '');
  if (existing.has(path) || existing.has(`${top}/${path}`)) return true;
  const pattern = path
    .split(/<\w+>|\*/)
    .map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&'))
    .join('[^/]+');
  const within = folder === '' || folder === '.' ? '(?:^|/)' : `^${folder}/(?:.*/)?`;
  const ending = new RegExp(`${within}${pattern}$`);
  return [...existing].some((candidate) => ending.test(candidate));
}

function section(text: string, heading: string): { line: number; text: string }[] {
  const lines = text.split('\n').map((content, index) => ({ line: index + 1, text: content }));
  const start = lines.findIndex(({ text: content }) => content === heading);
  if (start < 0) return [];
  const end = lines.findIndex(({ text: content }, index) => index > start && content.startsWith('## '));
  return lines.slice(start + 1, end < 0 ? undefined : end);
}

function folders(path: string): string[] {
  const parent = posix.dirname(path);
  return parent === '.' ? [] : [parent, ...folders(parent)];
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

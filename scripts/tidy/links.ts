import { posix } from 'node:path';
import type { Check, RepositoryFile } from './tree.ts';

interface Link {
  readonly line: number;
  readonly target: string;
}

const EXTERNAL = /^(?:[a-z][a-z+.-]*:|\/\/)/i;

/** Relative links of every Markdown file lead to a file, and their anchors to a heading. */
export const linksResolve: Check = (files) => {
  const documents = new Map(files.filter(isMarkdown).map((file) => [file.path, file]));
  const existing = new Set(files.flatMap(({ path }) => withParents(path)));

  return [...documents.values()].flatMap((document) =>
    linksOf(document)
      .filter(({ target }) => !EXTERNAL.test(target))
      .flatMap(({ line, target }) => {
        const [path = '', anchor] = target.split('#');
        const file = path === '' ? document.path : resolve(document.path, path);
        if (!existing.has(file)) return [`${document.path}:${line} links to ${target}, which does not exist`];
        const linked = documents.get(file);
        if (anchor === undefined || linked === undefined || anchorsOf(linked).has(anchor)) return [];
        return [`${document.path}:${line} links to ${target}, but ${file} has no such heading`];
      }),
  );
};

function linksOf({ text }: RepositoryFile): Link[] {
  return proseLines(text).flatMap(({ line, prose }) => {
    const inline = [...prose.matchAll(/\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g)];
    const reference = [...prose.matchAll(/^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)/g)];
    const html = [...prose.matchAll(/\b(?:href|src)="([^"]+)"/g)];
    return [...inline, ...reference, ...html].flatMap(([, target]) =>
      target === undefined ? [] : [{ line, target: decodeURI(target) }],
    );
  });
}

/** The anchors that GitHub gives to headings, plus explicit ones. */
function anchorsOf({ text }: RepositoryFile): Set<string> {
  const anchors = new Set<string>();
  for (const { heading, prose } of proseLines(text)) {
    for (const [, id] of prose.matchAll(/<a (?:id|name)="([^"]+)"/g)) if (id !== undefined) anchors.add(id);
    if (heading !== undefined) anchors.add(unusedSlug(slug(heading), anchors));
  }
  return anchors;
}

function slug(heading: string): string {
  return heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/<[^>]*>/g, '')
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\p{M}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');
}

function unusedSlug(wanted: string, taken: ReadonlySet<string>): string {
  let candidate = wanted;
  for (let count = 1; taken.has(candidate); count += 1) candidate = `${wanted}-${count}`;
  return candidate;
}

/** Lines outside of code fences; `prose` is the line without inline code. */
function proseLines(text: string): { line: number; prose: string; heading: string | undefined }[] {
  let fence: string | undefined;
  return text.split('\n').flatMap((content, index) => {
    const marker = /^\s*(`{3,}|~{3,})/.exec(content)?.[1];
    if (fence !== undefined) {
      if (marker?.startsWith(fence) === true) fence = undefined;
      return [];
    }
    if (marker !== undefined) {
      fence = marker;
      return [];
    }
    const heading = /^#{1,6}\s+(.*?)(?:\s+#+)?\s*$/.exec(content)?.[1];
    return [{ line: index + 1, prose: content.replaceAll(/(`+)[^`]*?\1/g, ''), heading }];
  });
}

function resolve(from: string, path: string): string {
  const target = path.startsWith('/') ? path.slice(1) : posix.join(posix.dirname(from), path);
  return target.replace(/\/$/, '') || '.';
}

function withParents(path: string): string[] {
  const parent = posix.dirname(path);
  return parent === '.' ? ['.', path] : [path, ...withParents(parent)];
}

function isMarkdown({ path }: RepositoryFile): boolean {
  return path.endsWith('.md');
}

import { basename, relative } from 'node:path';

const PLAIN = /^[\w./@+-]+$/;

/** What to type to run the program at `path` again: in a clone there is no command `spillgate`. */
export function programName(path: string, folder: string): string {
  if (basename(path) === 'spillgate') return 'spillgate';
  const near = relative(folder, path);
  const shortest = near.length < path.length ? near : path;
  return `node ${PLAIN.test(shortest) ? shortest : `'${shortest.replaceAll("'", String.raw`'\''`)}'`}`;
}

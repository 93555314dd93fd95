import { mkdirSync, statSync, type Stats } from 'node:fs';
import { dirname } from 'node:path';
import { SettingError } from '../config/problem.ts';

const PATH = ['state_dir'];
const ADVICE = 'Name a folder that the gateway may write to.';

/** Throws a `SettingError` if something that is not a folder stands in the way. Changes nothing. */
export function usableFolder(folder: string | undefined): void {
  if (folder === undefined) return;
  const found = lookAt(folder);
  if (found === undefined && dirname(folder) !== folder) return usableFolder(dirname(folder));
  if (found?.isDirectory() === true) return;
  throw new SettingError(PATH, `state_dir: ${folder} is not a folder`, ADVICE);
}

/** Creates what is missing. Throws a `SettingError` if that fails. */
export function createFolder(folder: string): void {
  try {
    createWithParents(folder);
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error';
    throw new SettingError(PATH, `state_dir: ${folder} cannot be created (${code})`, ADVICE, { cause });
  }
}

/** Step by step: `recursive` of Node.js does not end in folders that take no others, such as /proc. */
function createWithParents(folder: string): void {
  if (isFolder(folder)) return;
  if (dirname(folder) !== folder) createWithParents(dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (failure) {
    // Another process may have been faster.
    if (!isFolder(folder)) throw failure;
  }
}

function isFolder(path: string): boolean {
  return lookAt(path)?.isDirectory() === true;
}

/** Undefined if there is nothing, or nothing that this process may see. */
function lookAt(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}

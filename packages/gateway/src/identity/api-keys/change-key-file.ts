import {
  chmodSync,
  chownSync,
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
  type Stats,
} from 'node:fs';
import type { Document } from 'yaml';
import { entriesOf, keyDocument, KeyFileError } from './key-file.ts';

/** Only who runs the gateway has to read it. */
const MODE = 0o600;

/**
 * Changes a file of keys: checks what is there, what comes out of it, and replaces the file as a whole, so that no
 * gateway reads half of it. Comments stay. Of two changes at a time none is lost: the second one fails. Throws a
 * `KeyFileError`, or what the system says.
 */
export function changeKeyFile(file: string, change: (document: Document) => void): void {
  const before = statOf(file);
  // A link stays a link.
  const path = before === undefined ? file : realpathSync(file);
  locked(`${path}.lock`, () => {
    const document = keyDocument(before === undefined ? 'keys: []\n' : readFileSync(path, 'utf8'));
    entriesOf(document);
    change(document);
    entriesOf(document);
    replace(path, document.toString(), before);
  });
}

function locked(lock: string, act: () => void): void {
  let descriptor: number;
  try {
    descriptor = openSync(lock, 'wx', MODE);
  } catch (cause) {
    if (!hasCode(cause, 'EEXIST')) throw cause;
    throw new KeyFileError(`is being changed by another command; if that is not so, remove ${lock}`, {
      cause,
    });
  }
  closeSync(descriptor);
  try {
    act();
  } finally {
    rmSync(lock, { force: true });
  }
}

function replace(path: string, text: string, before: Stats | undefined): void {
  const next = `${path}.new`;
  rmSync(next, { force: true });
  const descriptor = openSync(next, 'wx', MODE);
  try {
    writeSync(descriptor, text);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  if (before !== undefined) {
    // Whoever could read it can still do so: else a gateway would go on with keys that were revoked.
    chmodSync(next, before.mode & 0o777);
    keepOwner(next, before);
  }
  renameSync(next, path);
}

function keepOwner(path: string, { uid, gid }: Stats): void {
  const now = statSync(path);
  if (now.uid !== uid || now.gid !== gid) chownSync(path, uid, gid);
}

function statOf(file: string): Stats | undefined {
  return statSync(file, { throwIfNoEntry: false });
}

function hasCode(failure: unknown, code: string): boolean {
  return failure instanceof Error && 'code' in failure && failure.code === code;
}

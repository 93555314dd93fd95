// A clock of its own for a server process: libfaketime answers in the place of the C library.
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const CLOCK_FILE = 'clock';
/** Where Debian and Fedora put it; Debian has a folder per architecture. */
const LIBRARY_FOLDERS = ['/usr/lib64', ...archFolders()];
const LIBRARY = 'faketime/libfaketimeMT.so.1';

/** What a process needs so that {@link writeClock} sets its clock, and nobody else's. */
export function clockEnvironment(folder: string): NodeJS.ProcessEnv {
  const library = LIBRARY_FOLDERS.map((root) => join(root, LIBRARY)).find((path) => existsSync(path));
  if (library === undefined)
    throw new Error('libfaketime is missing; scripts/prepare-system.sh installs it (on Linux only)');
  return {
    ...process.env,
    // The C library comes before jemalloc, which asks for the time while libfaketime is still asking it for memory.
    LD_PRELOAD: `${library} ${pathOfLibc()}`,
    FAKETIME_TIMESTAMP_FILE: join(folder, CLOCK_FILE),
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  };
}

/** Sets the clock to the machine's plus `byMs`, at once. */
export function writeClock(folder: string, byMs: number): void {
  const path = join(folder, CLOCK_FILE);
  // The server reads the file at every look at its clock, so it must never be half written.
  writeFileSync(`${path}.next`, `${byMs < 0 ? '-' : '+'}${Math.abs(byMs) / 1000}\n`);
  renameSync(`${path}.next`, path);
}

function archFolders(): readonly string[] {
  if (!existsSync('/usr/lib')) return [];
  const names = readdirSync('/usr/lib').filter((name) => name.endsWith('-linux-gnu'));
  return names.map((name) => join('/usr/lib', name));
}

/** Node.js itself is linked with it. */
function pathOfLibc(): string {
  const path = /\s(\/\S*\/libc\.so\.6)$/m.exec(readFileSync('/proc/self/maps', 'utf8'))?.[1];
  if (path === undefined) throw new Error('libc.so.6 is not among the libraries of this process');
  return path;
}

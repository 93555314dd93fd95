import { statSync } from 'node:fs';

export interface FileWatch {
  /** Looks at these files from now on. */
  watch(files: readonly string[]): void;
  /** The files are about to be read as they are now: only a later change calls back. */
  acted(): void;
  close(): void;
}

const POLL_MS = 250;

/**
 * Calls back when one of the files has changed and then stood still for a moment. It looks at the files themselves,
 * four times a second: that sees files that are written in place, replaced by renaming, or reached through links that
 * are turned (as Kubernetes does), on every file system. Notifications of the system miss some of these.
 */
export function watchFiles(changed: () => void): FileWatch {
  let files = new Map<string, FileLook>();

  const look = (): void => {
    let settled = false;
    for (const [file, { acted, seen }] of files) {
      const now = signature(file);
      // Still being written if it differs from the last look.
      const isNew = now === seen && now !== acted;
      files.set(file, { acted: isNew ? now : acted, seen: now });
      settled ||= isNew;
    }
    if (settled) changed();
  };
  const timer = setInterval(look, POLL_MS);
  timer.unref();

  return {
    watch(named) {
      const before = files;
      files = new Map(named.map((file) => [file, before.get(file) ?? firstLook(file)]));
    },
    acted() {
      files = new Map([...files.keys()].map((file) => [file, firstLook(file)]));
    },
    close: () => clearInterval(timer),
  };
}

interface FileLook {
  /** What the file was when it was last acted on. */
  readonly acted: string;
  readonly seen: string;
}

function firstLook(file: string): FileLook {
  const now = signature(file);
  return { acted: now, seen: now };
}

/** Differs whenever the content may. A file that is gone for a moment is a change too; reading it will tell. */
function signature(file: string): string {
  try {
    // Synchronous: a few microseconds, and no two looks can overtake each other.
    const { dev, ino, size, mtimeNs } = statSync(file, { bigint: true });
    return `${dev} ${ino} ${size} ${mtimeNs}`;
  } catch (failure) {
    return failure instanceof Error ? failure.message : 'unknown';
  }
}

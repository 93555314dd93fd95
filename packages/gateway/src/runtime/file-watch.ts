import { stat } from 'node:fs/promises';

export interface FileWatch {
  /** Looks at these files from now on. */
  watch(files: readonly string[]): void;
  close(): void;
}

const POLL_MS = 250;

/**
 * Calls back when one of the files has changed and then stood still for a moment. It looks at the files themselves, four times a
 * second: that sees files that are written in place, replaced by renaming, or reached through links that are turned (as Kubernetes
 * does), on every file system. Notifications of the system miss some of these.
 */
export function watchFiles(changed: () => void): FileWatch {
  let files: readonly string[] = [];
  let acted: string | undefined;
  let seen: string | undefined;
  let busy = false;

  const look = async (): Promise<void> => {
    const watched = files;
    const now = (await Promise.all(watched.map(signature))).join('\n');
    if (watched !== files) return;
    const settled = now === seen;
    seen = now;
    if (!settled || now === acted) return;
    const first = acted === undefined;
    acted = now;
    if (!first) changed();
  };
  const timer = setInterval(() => {
    if (busy) return;
    busy = true;
    void look().finally(() => {
      busy = false;
    });
  }, POLL_MS);
  timer.unref();

  return {
    watch(named) {
      const same = named.length === files.length && named.every((file, at) => file === files[at]);
      if (same) return;
      files = [...named];
      [acted, seen] = [undefined, undefined];
    },
    close: () => clearInterval(timer),
  };
}

/** Differs whenever the content may. A file that is gone for a moment is a change too; reading it will tell. */
async function signature(file: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs } = await stat(file, { bigint: true });
    return `${dev} ${ino} ${size} ${mtimeNs}`;
  } catch {
    return 'missing';
  }
}

import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('watchdog.sh', import.meta.url));

/**
 * Cleans up after this process when it is gone. An `exit` listener could not: the test runner ends its workers with
 * SIGTERM and SIGKILL, and then none runs. The kernel closes the watchdog's input in every case.
 */
export class Watchdog {
  #process: ChildProcess | undefined;

  /** From now on, when this process ends, the server that runs in `folder` is killed and the folder removed. */
  hold(folder: string): void {
    this.#write(`hold ${folder}\n`);
  }

  drop(folder: string): void {
    this.#write(`drop ${folder}\n`);
  }

  /** Does at once what the end of this process would do. */
  async bite(): Promise<void> {
    const child = this.#process;
    if (child === undefined) return;
    this.#process = undefined;
    child.ref();
    await new Promise<void>((resolve) => {
      child.once('exit', () => {
        resolve();
      });
      child.stdin?.end();
    });
  }

  #write(line: string): void {
    this.#process ??= start();
    this.#process.stdin?.write(line);
  }
}

export const watchdog: Watchdog = new Watchdog();

function start(): ChildProcess {
  // In a process group of its own, so that Ctrl-C and the end of a whole group leave it time to clean up.
  const child = spawn('sh', [SCRIPT], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
  // Not waited for: it would keep this process alive, and this process keeps it alive.
  child.unref();
  if (child.stdin instanceof Socket) child.stdin.unref();
  return child;
}

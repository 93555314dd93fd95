import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../../gateway/dist/main.js', import.meta.url));
const ANNOUNCED = /Dashboard\s+(http:\S+)/;

/** What `npm start` shows to somebody who has configured nothing, on ports that are free. */
export class RunningDemo {
  readonly adminUrl: string;
  private readonly child: ChildProcess;
  private readonly folder: string;

  private constructor(child: ChildProcess, folder: string, adminUrl: string) {
    this.child = child;
    this.folder = folder;
    this.adminUrl = adminUrl;
  }

  static async start(): Promise<RunningDemo> {
    const folder = mkdtempSync(join(tmpdir(), 'spillgate-demo-'));
    const child = spawn(process.execPath, [PROGRAM, 'run'], {
      cwd: folder,
      env: {
        PATH: process.env['PATH'] ?? '',
        SPILLGATE_SERVER_ADDRESS: '127.0.0.1:0',
        SPILLGATE_ADMIN_ADDRESS: '127.0.0.1:0',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const adminUrl = await new Promise<string>((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`the demo ended with ${code}`)));
      createInterface(child.stdout).on('line', (line) => {
        const found = ANNOUNCED.exec(line)?.[1];
        if (found !== undefined) resolve(found);
      });
    });
    return new RunningDemo(child, folder, adminUrl);
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await ended;
    rmSync(this.folder, { recursive: true });
  }
}

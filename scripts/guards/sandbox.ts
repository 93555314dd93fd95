import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { run } from '../command.ts';

export interface PlantedFile {
  readonly path: string;
  readonly text: string;
}

export interface Outcome {
  readonly exitCode: number;
  readonly lines: readonly string[];
}

/** Everything that configures a tool. Sources are left behind, so that only planted violations are reported. */
const CONFIGURATION = [
  '.gitignore',
  '.npmrc',
  '.oxfmtrc.json',
  '.oxlintrc.json',
  'bench/package.json',
  'bench/tsconfig.json',
  'examples/package.json',
  'examples/tsconfig.json',
  'knip.json',
  'package.json',
  'packages/dashboard/package.json',
  'packages/dashboard/tsconfig.json',
  'packages/gateway/package.json',
  'packages/gateway/tsconfig.json',
  'packages/limiter/package.json',
  'packages/limiter/tsconfig.cjs.json',
  'packages/limiter/tsconfig.json',
  'scripts/count-reporter.ts',
  'scripts/own-process.ts',
  'scripts/tsconfig.json',
  'test/patience.ts',
  'tsconfig.base.json',
  'tsconfig.json',
  'vitest.config.ts',
] as const;

/** A folder with the repository's real configuration and tools, and nothing else. */
export class Sandbox {
  readonly root: string;

  constructor(repository: string) {
    this.root = mkdtempSync(join(tmpdir(), 'spillgate-guards-'));
    symlinkSync(join(repository, 'node_modules'), join(this.root, 'node_modules'));
    for (const path of CONFIGURATION) {
      mkdirSync(dirname(join(this.root, path)), { recursive: true });
      copyFileSync(join(repository, path), join(this.root, path));
    }
  }

  plant(files: readonly PlantedFile[]): this {
    for (const { path, text } of files) {
      mkdirSync(dirname(join(this.root, path)), { recursive: true });
      writeFileSync(join(this.root, path), text);
    }
    return this;
  }

  /** Runs one of the repository's own npm scripts in the sandbox. */
  async npm(script: string, ...args: readonly string[]): Promise<Outcome> {
    return this.command('npm', ['run', '--silent', script, '--', ...args]);
  }

  async command(program: string, args: readonly string[]): Promise<Outcome> {
    const { exitCode, output } = await run(program, args, { cwd: this.root });
    // oxfmt colours its output whatever the environment says.
    return { exitCode, lines: stripVTControlCharacters(output).split('\n') };
  }

  remove(): void {
    if (existsSync(this.root)) rmSync(this.root, { recursive: true, force: true });
  }
}

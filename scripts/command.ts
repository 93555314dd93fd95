import { spawn } from 'node:child_process';

interface Result {
  readonly exitCode: number;
  /** Standard output and standard error in the order they came. */
  readonly output: string;
}

interface Options {
  readonly cwd?: string;
  readonly deadlineMs?: number;
  /** Added to that of this process. */
  readonly environment?: Readonly<Record<string, string>>;
}

const DEADLINE_MS = 120_000;

/** Runs a program to its end. A non-zero exit code is an answer; only a program that cannot run at all rejects. */
export async function run(program: string, args: readonly string[], options: Options = {}): Promise<Result> {
  const { cwd = process.cwd(), deadlineMs = DEADLINE_MS, environment = {} } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd,
      env: { ...plainEnvironment(), ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: deadlineMs,
    });
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      const output = Buffer.concat(chunks).toString('utf8');
      if (code === null) reject(new Error(`${program} ${args.join(' ')} was ended by ${signal}\n${output}`));
      else resolve({ exitCode: code, output });
    });
  });
}

/** Like {@link run}, for steps that must succeed: answers the output, rejects with it otherwise. */
export async function mustRun(
  program: string,
  args: readonly string[],
  options: Options = {},
): Promise<string> {
  const { exitCode, output } = await run(program, args, options);
  if (exitCode !== 0)
    throw new Error(`${program} ${args.join(' ')} failed with exit code ${exitCode}\n${output}`);
  return output;
}

/** Tools disagree on what `FORCE_COLOR=0` means, so the variable must go. */
function plainEnvironment(): NodeJS.ProcessEnv {
  const { FORCE_COLOR: _, ...environment } = process.env;
  return { ...environment, CI: '1', NO_COLOR: '1' };
}

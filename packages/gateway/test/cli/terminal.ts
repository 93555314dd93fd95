import { runCommandLine } from '../../src/cli/program.ts';

export interface Outcome {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Terminal {
  readonly env?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
  readonly isTerminal?: boolean;
  readonly writeFile?: (path: string, text: string) => void;
  /** Gets what a command does when it is interrupted. */
  readonly onSignal?: (signal: string, listener: () => void) => void;
}

/** Runs a command line in this process, as a terminal would show it. */
export async function spillgate(args: readonly string[], terminal: Terminal = {}): Promise<Outcome> {
  const { env = {}, files = {}, isTerminal = false, onSignal = () => undefined } = terminal;
  let [stdout, stderr] = ['', ''];
  const host = {
    program: 'node main.js',
    env,
    write: (text: string) => {
      stdout += text;
    },
    writeError: (text: string) => {
      stderr += text;
    },
    readFile: (path: string) => {
      const text = files[path];
      if (text === undefined) throw Object.assign(new Error('no such file'), { code: 'ENOENT' });
      return text;
    },
    writeFile: terminal.writeFile ?? (() => undefined),
    outputIsTerminal: isTerminal,
    errorIsTerminal: isTerminal,
    onSignal,
    onCrash: () => undefined,
    exit: () => undefined,
  };
  const exitCode = await runCommandLine(args, host, '1.2.3');
  return { exitCode, stdout, stderr };
}

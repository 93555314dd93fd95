import { basename, relative } from 'node:path';

/** What a command may do to the outside; `main.ts` gives it the real thing. */
export interface Host {
  /**
   * How this program is called from the working directory: `spillgate`, or in a clone `node
   * packages/gateway/dist/main.js`.
   */
  readonly program: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly write: (text: string) => void;
  readonly writeError: (text: string) => void;
  readonly readFile: (path: string) => string;
  /** Fails when the file exists, unless `replace` is set. */
  readonly writeFile: (path: string, text: string, replace: boolean) => void;
  readonly outputIsTerminal: boolean;
  readonly errorIsTerminal: boolean;
  /** Calls back for every signal of this name, which then does nothing else. */
  readonly onSignal: (signal: Signal, listener: () => void) => void;
  /** Calls back for an error that nobody caught. */
  readonly onCrash: (listener: (error: unknown) => void) => void;
  /** Ends the process, whatever is in flight. */
  readonly exit: (exitCode: ExitCode) => void;
}

export type Signal = 'SIGTERM' | 'SIGINT' | 'SIGHUP';

/**
 * Exit codes: 0 all is well, 1 the configuration or the gateway has problems, 2 the command was used wrongly or could
 * not do its work.
 */
export const EXIT = { ok: 0, problems: 1, usage: 2 } as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Takes the result of a command, at once or when it is done; an action returns what this returns. */
export type End = (exitCode: ExitCode | Promise<ExitCode>) => Promise<void>;

const PLAIN = /^[\w./@+-]+$/;

/** What to type to run the program at `path` again: in a clone there is no command `spillgate`. */
export function programName(path: string, folder: string): string {
  if (basename(path) === 'spillgate') return 'spillgate';
  const near = relative(folder, path);
  const shortest = near.length < path.length ? near : path;
  return `node ${PLAIN.test(shortest) ? shortest : `'${shortest.replaceAll("'", String.raw`'\''`)}'`}`;
}

const STANDARD_INPUT = 0;

/**
 * Reads files by their path, and standard input for `-`. What is no regular file, such as `<(command)`, can be read
 * only once, so its text is kept: a configuration is read when it is checked and again when it is used.
 */
export function fileReader({
  read,
  isRegular,
}: {
  readonly read: (path: string | typeof STANDARD_INPUT) => string;
  readonly isRegular: (path: string) => boolean;
}): (path: string) => string {
  const kept = new Map<string, string>();
  return (path) => {
    const known = kept.get(path);
    if (known !== undefined) return known;
    if (path !== '-' && isRegular(path)) return read(path);
    const text = read(path === '-' ? STANDARD_INPUT : path);
    kept.set(path, text);
    return text;
  };
}

export type Paint = (style: 'bold' | 'red' | 'yellow' | 'green' | 'dim', text: string) => string;

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;

export function paintFor(env: Readonly<Record<string, string | undefined>>, isTerminal: boolean): Paint {
  if (!wantsColour(env, isTerminal)) return (_, text) => text;
  return (style, text) => `\u001b[${CODES[style]}m${text}\u001b[0m`;
}

/** Colours for terminals; plain text where `NO_COLOR` is set (https://no-color.org) or nobody watches. */
export function wantsColour(env: Readonly<Record<string, string | undefined>>, isTerminal: boolean): boolean {
  const plain = (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb';
  const forced = (env['FORCE_COLOR'] ?? '0') !== '0';
  return !plain && (isTerminal || forced);
}

/** The last part of a command's help: command lines, each with what it is for where that is not plain. */
export function examples(...lines: readonly (readonly [line: string, purpose?: string])[]): string {
  const width = Math.max(...lines.map(([line, purpose]) => (purpose === undefined ? 0 : line.length)));
  const rows = lines.map(([line, purpose]) =>
    purpose === undefined ? `  ${line}` : `  ${line.padEnd(width)}  ${purpose}`,
  );
  return `\nExamples:\n${rows.join('\n')}`;
}

/** Why a command could not do its work, as a sentence for a person. */
export class CommandFailure extends Error {}

import type { Script } from './script.ts';

/** One command on its way to the server that has its key. */
export interface Command {
  /** '' for a command about the server itself. */
  readonly key: string;
  readonly name: string;
  readonly args: readonly string[];
  /** What `EVALSHA` runs: it is sent whole to a server that does not know it. */
  readonly script?: Script;
  /** Gets a reply that comes after the call has been given up: it ran all the same. */
  readonly onLateReply?: (reply: unknown) => void;
}

/** Runs a script by its name. */
export function scriptCommand(script: Script, keys: readonly string[], args: readonly string[]): Command {
  const [key = ''] = keys;
  return { key, name: 'EVALSHA', args: [script.sha1, String(keys.length), ...keys, ...args], script };
}

/** The same by its source, for a server that answered `NOSCRIPT`. */
export function withSource(command: Command, script: Script): Command {
  return { ...command, name: 'EVAL', args: command.args.with(0, script.source) };
}

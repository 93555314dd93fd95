import type { CallClient } from 'spillgate/redis';
import { createHash } from 'node:crypto';
import { DECIDE_SCRIPT } from './whole-scripts.ts';

/** A one-token mistake somebody could make in a Lua twin or in the script around them. */
export interface Mutant {
  /** The mistake in words. */
  readonly mistake: string;
  /** A piece of the script that occurs in it once. */
  readonly original: string;
  readonly mutated: string;
}

/** The script with the mistake in it. */
export function mutateScript({ original, mutated }: Mutant, source: string = DECIDE_SCRIPT): string {
  const parts = source.split(original);
  if (parts.length !== 2) throw new Error(`'${original}' occurs ${parts.length - 1} times in the script`);
  return parts.join(mutated);
}

/** A client that changes every script on its way to the server. */
export function clientWithScripts(client: CallClient, change: (source: string) => string): CallClient {
  /** The names of the changed scripts by the names of the store's own. */
  const names = new Map<string, string>();
  return {
    call: async (command, ...args) => {
      const [script = '', ...rest] = args;
      if (command === 'EVALSHA') return client.call(command, names.get(script) ?? script, ...rest);
      if (command !== 'EVAL') return client.call(command, ...args);
      const changed = change(script);
      names.set(sha1Of(script), sha1Of(changed));
      return client.call(command, changed, ...rest);
    },
  };
}

function sha1Of(text: string): string {
  return createHash('sha1').update(text).digest('hex');
}

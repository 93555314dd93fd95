import { DECIDE_SCRIPT, DECIDE_SHA1 } from '#limiter/stores/redis/script.generated.js';
import type { CallClient } from 'spillgate/redis';
import { createHash } from 'node:crypto';

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

/** A client that sends `script` wherever the store sends its own. */
export function clientWithScript(client: CallClient, script: string): CallClient {
  const sha1 = createHash('sha1').update(script).digest('hex');
  return {
    call: async (command, ...args) =>
      client.call(
        command,
        ...args.map((argument) => {
          if (argument === DECIDE_SHA1) return sha1;
          return argument === DECIDE_SCRIPT ? script : argument;
        }),
      ),
  };
}

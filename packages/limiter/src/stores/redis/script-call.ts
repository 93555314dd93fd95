import type { SendKeyed } from './client.ts';
import { replyCode } from './failure-class.ts';
import { DECIDE_SCRIPT, DECIDE_SHA1, REFUND_SCRIPT, REFUND_SHA1 } from './script.generated.ts';

/** A script and the name under which servers remember it. */
export interface Script {
  readonly sha1: string;
  readonly source: string;
}

export const DECIDE: Script = { sha1: DECIDE_SHA1, source: DECIDE_SCRIPT };
export const REFUND: Script = { sha1: REFUND_SHA1, source: REFUND_SCRIPT };

export interface ScriptCall {
  readonly script: Script;
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

/** Runs a script by its name, and within the same request by its source where the server does not know it. */
export function callScript(
  send: SendKeyed,
  { script, keys, args }: ScriptCall,
  onReload: (key: string) => void = () => undefined,
): Promise<unknown> {
  const [key = ''] = keys;
  const command = [script.sha1, String(keys.length), ...keys, ...args];
  return send(key, 'EVALSHA', command).catch((error: unknown) => {
    // A restarted or flushed server does not know the script. It surely did not run, so sending it again is safe.
    if (replyCode(error) !== 'NOSCRIPT') throw error;
    onReload(key);
    return send(key, 'EVAL', command.with(0, script.source));
  });
}

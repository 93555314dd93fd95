import { openIoredis } from './connections.ts';
import { amplePolicy, limiterOn } from './ours.ts';

/** A script call exactly as the store sends it, and how many decisions it carries. */
export interface RecordedCall {
  readonly args: readonly string[];
  readonly decisions: number;
}

/** What the store sends when so many decisions are asked for in one turn; it may send fewer in one call. */
export async function recordCall(port: number, decisions: number): Promise<RecordedCall> {
  const client = openIoredis(port);
  const calls: RecordedCall[] = [];
  const limiter = limiterOn({
    call(command, ...args) {
      if (command === 'EVALSHA') calls.push({ args: [command, ...args], decisions: Number(args[1]) });
      return client.call(command, ...args);
    },
  });
  try {
    // The same once more, because the first call may only have found out that the server lacks the script.
    for (let time = 0; time < 2; time++) {
      const asked = Array.from({ length: decisions }, (_, at) => limiter.check(amplePolicy.for(`key-${at}`)));
      await Promise.all(asked);
    }
  } finally {
    await limiter.close();
    client.disconnect();
  }
  const [largest] = calls.toSorted((a, b) => b.decisions - a.decisions);
  if (largest === undefined) throw new Error('The store sent no EVALSHA.');
  return largest;
}

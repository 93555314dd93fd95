import { ascending, Keys } from '../frame/keys.ts';
import type { Subject } from './candidate.ts';

/** Asks for every key once. Each must be allowed: a store that denies a new key has confused two of them. */
export async function fill(subject: Subject, count: number): Promise<void> {
  const keys = new Keys(ascending(count));
  const { decideSync, awaited } = subject;
  let allowed = 0;
  for (let i = 0; i < count; i++) {
    const key = keys.next();
    if (decideSync === undefined ? awaited.allowed(await awaited.call(key)) : decideSync(key)) allowed++;
  }
  if (allowed !== count) throw new Error(`Only ${allowed} of ${count} new keys were allowed.`);
}

export function* everyKey(count: number): Iterable<string> {
  const keys = new Keys(ascending(count));
  for (let i = 0; i < count; i++) yield keys.next();
}

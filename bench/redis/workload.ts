import type { Awaitable } from '../frame/awaitable.ts';
import { ascending, Keys, uniform, type Order } from '../frame/keys.ts';
import type { Subject } from './candidate.ts';

export interface Request {
  /** Requests of the ample policy have to be allowed, those of the tight one denied. */
  readonly policy: 'ample' | 'tight';
  readonly key: string;
}

export interface Workload {
  readonly next: () => Request;
}

export const KEY_COUNT = 10_000;
/** One request in so many asks for a key that has nothing left, and one key in so many is such a key. */
const DENIED_ONE_IN = 10;
const TIGHT_KEYS = KEY_COUNT / DENIED_ONE_IN;
const AMPLE_KEYS = KEY_COUNT - TIGHT_KEYS;
/** Requests in flight at once while the keys are spent. */
const FILL_IN_FLIGHT = 500;

/** Every tenth request is denied, as on a server where a few clients ask for more than their share. */
export function mixedWorkload(): Workload {
  const ample = new Keys(uniform(AMPLE_KEYS));
  const tight = new Keys(uniform(TIGHT_KEYS));
  let count = 0;
  return {
    next() {
      count++;
      return count % DENIED_ONE_IN === 0
        ? { policy: 'tight', key: tight.next() }
        : { policy: 'ample', key: ample.next() };
    },
  };
}

/** One client that does not stop asking. */
export function hotWorkload(): Workload {
  const keys = new Keys(Uint32Array.of(0));
  return { next: () => ({ policy: 'tight', key: keys.next() }) };
}

/** Asks for every key of both policies once. Each must be allowed: afterwards the tight ones have nothing left. */
export async function spendOnce(subject: Subject): Promise<void> {
  await askAll(subject.ample, ascending(AMPLE_KEYS));
  await askAll(subject.tight, ascending(TIGHT_KEYS));
}

async function askAll(policy: Awaitable, order: Order): Promise<void> {
  const keys = new Keys(order);
  for (let asked = 0; asked < order.length; asked += FILL_IN_FLIGHT) {
    const inFlight = Math.min(FILL_IN_FLIGHT, order.length - asked);
    const answers = await Promise.all(Array.from({ length: inFlight }, () => policy.call(keys.next())));
    if (!answers.every((answer) => policy.allowed(answer))) throw new Error('A new key was denied.');
  }
}

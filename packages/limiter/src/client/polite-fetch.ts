import { readClock } from '../clock.ts';
import { acceptOptions, type Fetch, type PoliteFetchOptions } from './client-options.ts';
import type { ClientTime } from './pacer.ts';
import { WaitSlots } from './wait-slots.ts';
import { Pacers } from './pacers.ts';
import { outgoing } from './outgoing.ts';
import { PoliteCall } from './polite-call.ts';

/**
 * A `fetch` that does what servers say about their limits: it waits as long as it is told and sends a refused request
 * again, and with `pace` it slows down before it is refused. When it gives up, the caller gets the last response.
 *
 * @example
 * const fetch = politeFetch({ maxRetries: 5, maxWaitMs: 30_000 });
 * const response = await fetch('https://api.example.com/items');
 */
export function politeFetch(options: PoliteFetchOptions = {}): Fetch {
  const settings = acceptOptions(options);
  const time: ClientTime = { nowMs: () => readClock(settings.clock) / 1000, sleep: settings.sleep };
  const pacers = new Pacers(settings, time);
  const waitSlots = new WaitSlots(settings.maxWaiting);
  let calls = 0;
  return async (input, init) => {
    const request = outgoing(input, init, settings);
    const scheduler = pacers.schedulerFor(request.url);
    calls += 1;
    const call = new PoliteCall(request, settings, {
      scheduler,
      time,
      arrival: calls,
      slot: waitSlots.slot(),
    });
    return call.run();
  };
}

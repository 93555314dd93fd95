import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { ArrivalOrder } from '../../src/simulate/arrival-order.ts';
import type { LoggedRequest } from '../../src/simulate/logged-request.ts';

function requestAt(atMs: number, number: number): LoggedRequest {
  return {
    atMs,
    client: undefined,
    method: 'GET',
    scheme: 'http',
    host: '',
    target: `/${number}`,
    headers: [],
  };
}

const steps = fc.array(fc.oneof(fc.nat({ max: 3 }), fc.integer({ min: -60, max: 3 }), fc.integer()), {
  minLength: 3,
  maxLength: 40,
});

test('requests come in the order of time, and those of the same time as the log has them', () => {
  fc.assert(
    fc.property(steps, fc.integer({ min: 700, max: 1500 }), (jumps, perPortion) => {
      const order = new ArrivalOrder(false);
      const all: LoggedRequest[] = [];
      for (let portion = 0; portion < 4; portion += 1) {
        const requests = Array.from({ length: perPortion }, (_, at) => {
          const number = all.length + at;
          return requestAt(number + (jumps[number % jumps.length] ?? 0), number);
        });
        order.add(requests);
        all.push(...requests);
        order.ready(-Infinity);
      }

      const given = order.rest().map(({ target }) => target);

      const expected = all.toSorted((one, other) => one.atMs - other.atMs).map(({ target }) => target);
      expect(given).toEqual(expected);
    }),
    { numRuns: 100 },
  );
});

import type * as Library from '../../src/policy.ts';
import { rational } from '../model/rational.ts';
import { countingLedger, drainingLedger, usedInSpan, usedInWeightedWindows, usedInWindow } from './ledger.ts';
import type { ReservationSubject } from './program.ts';

const SECOND_US = 1_000_000;

type PolicyFunctions = Pick<
  typeof Library,
  | 'calendarQuota'
  | 'fixedWindow'
  | 'leakyBucket'
  | 'slidingWindowCounter'
  | 'slidingWindowLog'
  | 'tokenBucket'
>;

/** Every kind of policy that can be reserved, from the library that a test uses. */
export function reservationSubjects(library: PolicyFunctions): readonly ReservationSubject[] {
  const quota = 10;
  const window = '1s';
  const windowUs = SECOND_US;
  return [
    {
      policy: library.tokenBucket({ name: 'bucket', average: 10, burst: 10, period: '1s', maxDebt: 6 }),
      ledger: () =>
        drainingLedger({
          average: 10,
          periodUs: SECOND_US,
          maxDebt: 6,
          capacity: rational(10),
          isQueue: false,
        }),
    },
    {
      policy: library.tokenBucket({ name: 'thirds', average: 3, burst: 7, period: '1s' }),
      ledger: () =>
        drainingLedger({
          average: 3,
          periodUs: SECOND_US,
          maxDebt: 7,
          capacity: rational(7),
          isQueue: false,
        }),
    },
    {
      policy: library.leakyBucket({ name: 'queue', average: 7, period: '1s', maxDelay: '2s', maxDebt: 5 }),
      ledger: () =>
        drainingLedger({
          average: 7,
          periodUs: SECOND_US,
          maxDebt: 5,
          capacity: rational(15),
          isQueue: true,
        }),
    },
    {
      policy: library.fixedWindow({ name: 'fixed', quota, window, maxDebt: 3 }),
      ledger: () => countingLedger({ limit: quota, maxDebt: 3, used: usedInWindow(windowUs) }),
    },
    {
      policy: library.slidingWindowLog({ name: 'log', quota, window }),
      ledger: () => countingLedger({ limit: quota, maxDebt: quota, used: usedInSpan(windowUs) }),
    },
    {
      policy: library.slidingWindowCounter({ name: 'counter', quota, window, maxDebt: 0 }),
      ledger: () => countingLedger({ limit: quota, maxDebt: 0, used: usedInWeightedWindows(windowUs) }),
    },
    {
      policy: library.slidingWindowCounter({ name: 'owing', quota, window: '2s', maxDebt: 7 }),
      ledger: () => countingLedger({ limit: quota, maxDebt: 7, used: usedInWeightedWindows(2 * windowUs) }),
    },
    {
      policy: library.calendarQuota({ name: 'daily', quota: 30, every: 'day', maxDebt: 20 }),
      ledger: () => countingLedger({ limit: 30, maxDebt: 20, used: usedInWindow(86_400 * SECOND_US) }),
    },
  ];
}

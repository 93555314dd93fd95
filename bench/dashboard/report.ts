import { median, type Plan } from '../frame/rounds.ts';
import type { Report } from '../frame/suite.ts';

const MOST_PROCESSOR_TIME = 1.03;
const MOST_BYTES = 64 * 1_048_576;

export interface Memory {
  readonly keys: number;
  /** Resident bytes with the admin server off, and with a page that watches. */
  readonly without: number;
  readonly watched: number;
}

interface Measured {
  readonly plan: Plan;
  readonly perSecond: number;
  /** Processor time per request in microseconds, one per round. */
  readonly closed: readonly number[];
  readonly open: readonly number[];
  readonly memory: Memory;
}

export function dashboardReport({ plan, perSecond, closed, open, memory }: Measured): Report {
  const ratio = median(open.map((cpuUs, round) => cpuUs / (closed[round] ?? Number.NaN)));
  const more = memory.watched - memory.without;
  return {
    title: 'Dashboard: what it costs the gateway',
    facts: [
      `One gateway on one core, ${perSecond} requests per second of 10,000 keys; the load and the backend (nginx) have the other.`,
      `Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms each, with and without a page that follows /v1/live and asks for the busiest keys every 5 s.`,
      `Memory is what is resident after ${memory.keys} requests of as many keys, as fast as they go, with the admin server off, and with such a page.`,
    ],
    tables: [
      {
        title: 'Cost',
        columns: [
          { title: 'what', align: 'left' },
          { title: 'without', align: 'right' },
          { title: 'with an open page', align: 'right' },
          { title: 'more', align: 'right' },
        ],
        rows: [
          [
            'processor us/request',
            median(closed).toFixed(2),
            median(open).toFixed(2),
            `${((ratio - 1) * 100).toFixed(1)} %`,
          ],
          [`MB for ${memory.keys} keys`, inMb(memory.without), inMb(memory.watched), `${inMb(more)} MB`],
        ],
      },
    ],
    goals: [
      {
        text: 'An open dashboard costs at most 3 % more processor time at 10,000 requests per second',
        passed: ratio <= MOST_PROCESSOR_TIME,
        detail: `median of the ratios ${ratio.toFixed(3)}`,
      },
      {
        text: 'The dashboard takes at most 64 MB more for 1 million keys',
        passed: more <= MOST_BYTES,
        detail: `${inMb(more)} MB`,
      },
    ],
  };
}

function inMb(bytes: number): string {
  return (bytes / 1_048_576).toFixed(0);
}

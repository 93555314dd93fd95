import { median, type Plan } from '../frame/rounds.ts';
import type { Report } from '../frame/suite.ts';

const MOST_PROCESSOR_TIME = 1.03;
/** Of the rate that is asked for: at less, another question was answered. */
const LEAST_REACHED = 0.95;
const MOST_BYTES = 64 * 1_048_576;

export interface Memory {
  readonly keys: number;
  /** Resident bytes with the admin server off, and with a page that watches. */
  readonly without: number;
  readonly watched: number;
}

export interface PacedRound {
  /** Processor time per request in microseconds. */
  readonly cpuUs: number;
  /** Requests per second that were answered. */
  readonly reached: number;
}

interface Measured {
  readonly plan: Plan;
  readonly perSecond: number;
  /** One per round, by turns. */
  readonly closed: readonly PacedRound[];
  readonly open: readonly PacedRound[];
  readonly memory: Memory;
}

export function dashboardReport({ plan, perSecond, closed, open, memory }: Measured): Report {
  const ratios = open.map(({ cpuUs }, round) => cpuUs / (closed[round]?.cpuUs ?? Number.NaN));
  const ratio = median(ratios);
  const [lowest, highest] = [Math.min(...ratios), Math.max(...ratios)];
  const reached = Math.min(...[closed, open].map((rounds) => median(rounds.map((round) => round.reached))));
  const more = memory.watched - memory.without;
  return {
    title: 'Dashboard: what it costs the gateway',
    facts: [
      `One gateway on one core, ${perSecond} requests per second of 10,000 keys; the load and the backend (nginx) have the other.`,
      `Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms each, with and without a page that follows /v1/live and asks for the busiest keys every 5 s, by turns.`,
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
          ['requests/s reached', rateOf(closed), rateOf(open), ''],
          ['processor us/request', timeOf(closed), timeOf(open), `${((ratio - 1) * 100).toFixed(1)} %`],
          [`MB for ${memory.keys} keys`, inMb(memory.without), inMb(memory.watched), `${inMb(more)} MB`],
        ],
      },
    ],
    goals: [
      {
        text: 'An open dashboard costs at most 3 % more processor time at 10,000 requests per second',
        passed: ratio <= MOST_PROCESSOR_TIME && reached >= LEAST_REACHED * perSecond,
        detail: `${reached.toFixed(0)} requests per second, median of the ratios ${ratio.toFixed(3)} (${lowest.toFixed(3)} to ${highest.toFixed(3)})`,
      },
      {
        text: 'The dashboard takes at most 64 MB more for 1 million keys',
        passed: more <= MOST_BYTES,
        detail: `${inMb(more)} MB`,
      },
    ],
  };
}

function rateOf(rounds: readonly PacedRound[]): string {
  return median(rounds.map(({ reached }) => reached)).toFixed(0);
}

function timeOf(rounds: readonly PacedRound[]): string {
  return median(rounds.map(({ cpuUs }) => cpuUs)).toFixed(2);
}

function inMb(bytes: number): string {
  return (bytes / 1_048_576).toFixed(0);
}

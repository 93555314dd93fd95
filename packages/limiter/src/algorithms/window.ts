// What the three windows have in common.
import type { Duration } from '../duration.ts';
import {
  MAX_COUNT,
  type AdvertisedRate,
  type AnyNumbers,
  type PolicyOption,
  type StatePacking,
} from './algorithm.ts';

export interface WindowNumbers {
  /** Units admitted per `window`: an integer >= 1. */
  readonly quota: number;
  /** The length of the window, such as `'1s'` or `'1m'`, or milliseconds. */
  readonly window: Duration;
}

export interface CompiledWindow extends AnyNumbers {
  readonly windowUs: number;
}

export const WINDOW_OPTIONS: { readonly [Option in keyof WindowNumbers]: PolicyOption } = {
  quota: { kind: 'count', description: 'Units admitted per `window`.' },
  window: { kind: 'duration', description: 'How long the window is.' },
};

export function windowAmounts({ quota, window }: { quota: number; window: number }): readonly number[] {
  return [quota, quota / window];
}

export function shareWindow<Numbers extends CompiledWindow>(numbers: Numbers, instances: number): Numbers {
  return { ...numbers, limit: Math.max(1, Math.floor(numbers.limit / instances)) };
}

/** With a quota of so many units more. */
export function loosenQuota<Numbers extends AnyNumbers>(numbers: Numbers, units: number): Numbers {
  return { ...numbers, limit: Math.min(MAX_COUNT, numbers.limit + units) };
}

export function advertiseWindow({ limit, windowUs }: CompiledWindow): AdvertisedRate {
  return { refillUs: windowUs, unitsIn: (spanUs) => (spanUs * limit) / windowUs, afterFirstUnitUs: 0 };
}

/** What was counted since a moment. */
export interface CountState {
  readonly startUs: number;
  readonly count: number;
}

const read = { startUs: 0, count: 0 };
export const COUNT_PACKING: StatePacking<CountState> = {
  cells: 2,
  fits: () => true,
  read(cells, at) {
    read.startUs = cells[at] ?? 0;
    read.count = cells[at + 1] ?? 0;
    return read;
  },
  write(cells, at, state) {
    cells[at] = state.startUs;
    cells[at + 1] = state.count;
  },
};

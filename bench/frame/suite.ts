import type { Chart } from './chart.ts';
import type { Table } from './table.ts';

export interface SuiteOptions {
  readonly quick: boolean;
}

/** Something the project wants to be true. It is printed, never asserted: timings depend on the machine. */
export interface Goal {
  readonly text: string;
  readonly passed: boolean;
  /** The numbers that decided, so that a reader can judge a narrow pass or fail. */
  readonly detail: string;
}

export interface Report {
  readonly title: string;
  /** How it was measured; one sentence each. */
  readonly facts: readonly string[];
  readonly tables: readonly Table[];
  readonly goals: readonly Goal[];
  /** What is worth a plot. */
  readonly charts?: readonly Chart[];
  readonly disturbance?: Disturbance;
}

/** How far other programs used the machine meanwhile, in slices. */
export interface Disturbance {
  readonly kept: number;
  readonly disturbed: number;
  readonly repeated: number;
}

export type Suite = (options: SuiteOptions) => Promise<Report>;

import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import type { Answered, Traffic } from './load.ts';
import type { KeyTraffic } from './key-contenders.ts';
import type { WorkloadName } from './workloads.ts';

const PROGRAM = fileURLToPath(new URL('asker-child.js', import.meta.url));

/** What a process opens: a candidate of the suite, or one key (or a few) with one contender. */
export type Opening =
  | { readonly kind: 'candidate'; readonly id: string }
  | { readonly kind: 'keys'; readonly id: string; readonly traffic: KeyTraffic };

/** Traffic whose workload another process makes. */
export interface NamedTraffic extends Omit<Traffic, 'workload'> {
  readonly workload: WorkloadName;
}

/** `arrival`, `inFlight` and `workload` mean nothing to contenders of one key. */
export interface AskedSlice extends NamedTraffic {
  readonly budgetMs: number;
}

/**
 * One contender in a process of its own, as an application has it: what others leave on the heap, and how they use the
 * client, does not slow it down. It ends with this process.
 */
export class AskerProcess {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async open(opening: Opening, port: number): Promise<AskerProcess> {
    const child = fork(PROGRAM, [JSON.stringify(opening), String(port)]);
    await answerOf(child);
    return new AskerProcess(child);
  }

  async ask(slice: AskedSlice): Promise<Answered> {
    const answered = answerOf(this.#child);
    this.#child.send(slice);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what asker-child.ts sends
    return (await answered) as Answered;
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.disconnect();
    await ended;
  }
}

async function answerOf(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const fail = (code: number | null): void =>
      reject(new Error(`a process that asks ended by itself (${code ?? 'signal'})`));
    child.once('exit', fail);
    child.once('message', (message) => {
      child.off('exit', fail);
      resolve(message);
    });
  });
}

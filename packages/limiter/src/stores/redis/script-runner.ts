import { LimiterError } from '../../errors.ts';
import type { StoreVerdict } from '../store.ts';
import type { Breaker } from './breaker.ts';
import type { SendCommand } from './client.ts';
import { decode, encode, type Question } from './protocol.ts';
import { DECIDE_SCRIPT, DECIDE_SHA1 } from './script.generated.ts';

/** Decisions in one script call: enough to spread its fixed cost, few enough that nobody else on the server waits. */
const MAX_BATCH = 64;
/** Script calls under way at once; further decisions gather into the next batch meanwhile. */
const MAX_IN_FLIGHT = 4;
/** Decisions that may wait for a call. Past it, a check is answered by the failure policy instead of queueing. */
const MAX_WAITING = 10_000;

interface Waiting {
  readonly question: Question;
  readonly resolve: (verdicts: readonly StoreVerdict[]) => void;
  readonly reject: (error: unknown) => void;
}

export interface ScriptRunnerParts {
  readonly send: SendCommand;
  readonly breaker: Breaker;
  /** The time for the script, '' for the server's own. */
  readonly nowUs: () => string;
}

/**
 * Sends decisions to one server. What is asked in the same turn of the event loop, or while earlier calls are under way,
 * shares a script call; a lone decision leaves at the end of the turn, without waiting for company.
 */
export class ScriptRunner {
  private readonly send: SendCommand;
  private readonly breaker: Breaker;
  private readonly nowUs: () => string;
  private waiting: Waiting[] = [];
  private inFlight = 0;
  private scheduled = false;

  constructor({ send, breaker, nowUs }: ScriptRunnerParts) {
    this.send = send;
    this.breaker = breaker;
    this.nowUs = nowUs;
  }

  ask(question: Question): Promise<readonly StoreVerdict[]> {
    if (this.waiting.length >= MAX_WAITING) {
      return Promise.reject(
        new LimiterError(
          'STORE_OVERLOADED',
          `${MAX_WAITING} decisions are already waiting for Redis, the most that may: the failure policy answers.`,
        ),
      );
    }
    return new Promise((resolve, reject) => {
      this.waiting.push({ question, resolve, reject });
      this.schedule();
    });
  }

  private schedule(): void {
    if (this.scheduled || this.inFlight >= MAX_IN_FLIGHT) return;
    this.scheduled = true;
    queueMicrotask(() => {
      this.scheduled = false;
      while (this.waiting.length > 0 && this.inFlight < MAX_IN_FLIGHT) void this.runBatch(this.takeBatch());
    });
  }

  private takeBatch(): readonly Waiting[] {
    const batch = this.waiting.slice(0, MAX_BATCH);
    this.waiting = this.waiting.slice(MAX_BATCH);
    return batch;
  }

  private async runBatch(batch: readonly Waiting[]): Promise<void> {
    this.inFlight += 1;
    const questions = batch.map(({ question }) => question);
    try {
      const answers = decode(questions, await this.breaker.run(() => this.evaluate(questions)));
      batch.forEach(({ resolve, reject }, at) => {
        const verdicts = answers[at];
        if (verdicts === undefined) reject(notAState(questions[at]));
        else resolve(verdicts);
      });
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      this.inFlight -= 1;
      this.schedule();
    }
  }

  private async evaluate(questions: readonly Question[]): Promise<unknown> {
    const keys = questions.flatMap((question) => question.keys);
    const args = [String(keys.length), ...keys, ...encode(questions, this.nowUs())];
    try {
      return await this.send('EVALSHA', [DECIDE_SHA1, ...args]);
    } catch (error) {
      // A restarted or flushed server does not know the script. It surely did not run, so sending it again is safe.
      if (!isNoScript(error)) throw error;
      return this.send('EVAL', [DECIDE_SCRIPT, ...args]);
    }
  }
}

function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

function notAState(question: Question | undefined): LimiterError {
  return new LimiterError(
    'STATE_INVALID',
    `A key of policy ${question?.limits[0]?.policy.name ?? '?'} holds something that is not its state: give the limiter a prefix of its own.`,
  );
}

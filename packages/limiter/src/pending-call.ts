import type { UndecidedCall } from './apply-failure-policy.ts';
import type { Decision } from './decision.ts';
import type { Asker } from './store-answer.ts';
import type { ReservedCharge, StoreVerdict } from './stores/store.ts';

/** A call that was accepted. */
export interface AskedCall extends UndecidedCall {
  readonly signal: AbortSignal | undefined;
  readonly onCharge: ((charge: ReservedCharge) => void) | undefined;
  readonly startedMs: number | undefined;
}

/** What becomes of a call. */
export interface CallAnswers {
  decided(call: AskedCall, verdicts: readonly StoreVerdict[]): Decision;
  undecided(call: AskedCall, failure: unknown): Decision;
}

/** A call that waits for the store. */
export class PendingCall implements Asker<readonly StoreVerdict[]> {
  private readonly answers: CallAnswers;
  private readonly call: AskedCall;
  private readonly resolve: (decision: Decision) => void;
  private readonly reject: (error: unknown) => void;

  constructor(
    answers: CallAnswers,
    call: AskedCall,
    resolve: (decision: Decision) => void,
    reject: (error: unknown) => void,
  ) {
    this.answers = answers;
    this.call = call;
    this.resolve = resolve;
    this.reject = reject;
  }

  answered(verdicts: readonly StoreVerdict[]): void {
    try {
      this.resolve(this.answers.decided(this.call, verdicts));
    } catch (error) {
      this.reject(error);
    }
  }

  failed(failure: unknown): void {
    try {
      this.resolve(this.answers.undecided(this.call, failure));
    } catch (error) {
      this.reject(error);
    }
  }
}

/**
 * A hand-picked moment: a state, a request, and the answer worked out on paper. Every store and every twin of an
 * algorithm has to give exactly this answer.
 */
export interface AlgorithmCase<Numbers, State> {
  readonly name: string;
  readonly numbers: Numbers;
  readonly state: State | undefined;
  readonly nowUs: number;
  readonly cost: number;
  readonly expected: {
    readonly allowed: boolean;
    readonly remaining: number;
    readonly retryAfterUs: number;
    readonly resetAfterUs: number;
    readonly delayUs?: number;
    /** The state afterwards, where the request changes it. */
    readonly spent?: State;
    /** The state that is kept if the check is not admitted, where a case is about that. */
    readonly carried?: State | undefined;
  };
}

const DAY_US = 86_400_000_000;

/** Some moment in 2026, so that the cases run on times as large as real ones. */
export const T0: number = 20_454 * DAY_US;

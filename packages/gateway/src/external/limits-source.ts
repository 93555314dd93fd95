import type { FailurePolicy, Policy } from 'spillgate';

/** What the service is asked about. */
export interface LimitsQuestion {
  /** Who asks, as the key strategy reads it. */
  readonly key: string;
  readonly method: string;
  readonly path: string;
  /** All lines of a header by its lower-case name; the source sends only what its filter lets out. */
  readonly headers: { readonly raw: readonly string[] };
}

/** What holds for a request. */
export interface ExternalLimits {
  /** Where the answer came from: the step of the chain. `static`: nobody knows; use the configured limits. */
  readonly step: 'cache' | 'service' | 'stale' | 'static';
  /** Policies to meet; empty means unlimited (`average: 0`). Undefined at step `static`. */
  readonly policies: readonly Policy[] | undefined;
  /** Counts instead of the extracted key. */
  readonly tenantKey: string | undefined;
  readonly cost: number | undefined;
  readonly failurePolicy: FailurePolicy | undefined;
  readonly failureCode: number | undefined;
  /** Already checked against `backend.url_policy` by name; the address is checked when it is dialled. */
  readonly backendUrl: string | undefined;
  readonly requestTimeoutMs: number | undefined;
}

/** Knows the limits of each key. Never rejects, and answers within the deadline. */
export interface LimitsSource {
  limitsFor(question: LimitsQuestion): ExternalLimits | Promise<ExternalLimits>;
  close(): Promise<void>;
}

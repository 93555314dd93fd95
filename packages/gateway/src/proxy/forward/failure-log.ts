import type { Log } from '../../telemetry/log.ts';

/** A server that is down fails requests by the thousand; one line per second says enough. */
const QUIET_MS = 1000;
/** Servers that rulings name are as many as there are tenants. */
const MAX_UPSTREAMS = 1000;

export interface FailedAttempt {
  readonly upstream: string;
  readonly requestId: string;
  readonly error: Error;
}

/** Tells the log about servers that fail: in one line, and at most once per second for each. */
export class FailureLog {
  private readonly log: Log;
  private readonly nowMs: () => number;
  private readonly said = new Map<string, { readonly atMs: number; unsaid: number }>();

  constructor(log: Log, nowMs: () => number = () => performance.now()) {
    this.log = log;
    this.nowMs = nowMs;
  }

  failed({ upstream, requestId, error }: FailedAttempt): void {
    const atMs = this.nowMs();
    const last = this.said.get(upstream);
    if (last !== undefined && atMs - last.atMs < QUIET_MS) {
      last.unsaid += 1;
      return;
    }
    this.remember(upstream, atMs);
    this.log.warn(
      { upstream, requestId, detail: detailOf(error), unsaid: last?.unsaid ?? 0 },
      'an upstream failed',
    );
  }

  /** In the order in which they were said, so that the one to drop is the first. */
  private remember(upstream: string, atMs: number): void {
    this.said.delete(upstream);
    const [oldest] = this.said.keys();
    if (this.said.size >= MAX_UPSTREAMS && oldest !== undefined) this.said.delete(oldest);
    this.said.set(upstream, { atMs, unsaid: 0 });
  }
}

/** A stack says nothing here: it ends in the pool of connections. */
function detailOf(error: Error): string {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : undefined;
  // A name with several addresses: the first of them says why, and the whole says nothing.
  const { message, name } = error.message === '' && first instanceof Error ? first : error;
  return message === '' ? name : message;
}

// When the next request may go, from what the server said last. Times are milliseconds of one clock.

/** What is known of one policy. */
export interface KnownQuota {
  readonly remaining: number;
  readonly limit: number | undefined;
  readonly resetAtMs: number;
  /** Of the request whose answer said so; later requests have larger numbers. */
  readonly order: number;
}

export interface Traffic {
  readonly quotas: Iterable<KnownQuota>;
  /** The server said to wait until then. */
  readonly heldUntilMs: number;
  /** The last answer spoke of no limit: there is nothing to pace by. */
  readonly silent: boolean;
  /** Requests without an answer so far. Whether the quotas count them already cannot be known, so they do not. */
  readonly inFlight: number;
  readonly lastSentMs: number;
}

export interface SendTime {
  readonly atMs: number;
  /** True when a request before that would be refused, false when it would only be too fast. */
  readonly firm: boolean;
}

/** How long an answer is awaited that would tell what is left, before another request goes and asks. */
const ANSWER_PATIENCE_MS = 1000;

/**
 * The moment for the next request; one in the past means now. `share` is the part of a quota below which it is spread.
 */
export function nextSendTime(traffic: Traffic, share: number, nowMs: number): SendTime {
  const { heldUntilMs, silent, inFlight, lastSentMs } = traffic;
  let holdMs = heldUntilMs;
  let spreadMs = -Infinity;
  let informed = silent;
  for (const { remaining, limit = Infinity, resetAtMs } of traffic.quotas) {
    if (resetAtMs <= nowMs) continue;
    informed = true;
    const budget = remaining - inFlight;
    if (budget < 1) holdMs = Math.max(holdMs, resetAtMs);
    // One part more than requests: the last of them goes before the end, and what comes after the end is not too close
    // to it.
    else if (budget < limit * share) {
      spreadMs = Math.max(spreadMs, lastSentMs + (resetAtMs - lastSentMs) / (budget + 1));
    }
  }
  // Nobody knows what is left: one request goes ahead, and its answer tells.
  if (!informed && inFlight > 0) spreadMs = Math.max(spreadMs, lastSentMs + ANSWER_PATIENCE_MS);
  return holdMs >= spreadMs ? { atMs: holdMs, firm: true } : { atMs: spreadMs, firm: false };
}

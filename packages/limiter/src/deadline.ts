import { LimiterError } from './errors.ts';

/** Waits for an answer, but not beyond the deadline and not after the caller has given up. */
export async function answerWithin<Answer>(
  answer: Promise<Answer>,
  deadlineMs: number,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  const { promise: deadline, reject } = withResolvers<never>();
  const timer = setTimeout(() => {
    reject(
      new LimiterError(
        'DEADLINE_EXCEEDED',
        `The store did not answer within ${deadlineMs} ms: find out why it is slow, or raise deadlineMs.`,
      ),
    );
  }, deadlineMs);
  // The reason itself is the caller's to throw: here it only has to end the wait.
  const abort = (): void => reject(new Error('aborted by the caller'));
  signal?.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([answer, deadline]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  }
}

interface Resolvers<Value> {
  readonly promise: Promise<Value>;
  readonly reject: (reason: Error) => void;
}

function withResolvers<Value>(): Resolvers<Value> {
  let rejectPromise: ((reason: Error) => void) | undefined;
  const promise = new Promise<Value>((_, reject) => {
    rejectPromise = reject;
  });
  return { promise, reject: (reason) => rejectPromise?.(reason) };
}

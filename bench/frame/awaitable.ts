/**
 * The promise exactly as the library returns it. Reading the answer is a second step: an async wrapper around
 * both would charge every library for a promise of ours.
 */
export interface Awaitable<Answer = unknown> {
  call(key: string): Promise<Answer>;
  // Methods, because TypeScript compares their parameters loosely: a list of candidates mixes answer types.
  allowed(answer: Answer): boolean;
  /** Whether a rejection is this library's way to deny. */
  denied(reason: unknown): boolean;
}

/**
 * How long a test waits for what has to happen: a busy machine takes its time, so a test only fails for what never
 * happens.
 */
export const PATIENCE_MS = 60_000;

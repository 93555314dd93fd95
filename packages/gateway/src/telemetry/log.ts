/** What the parts of the gateway need of a logger; pino's fits. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/**
 * One thing that goes wrong many times in a row: said the first time, then at most once per interval with how often it
 * was not said.
 */
export class ThrottledWarning {
  private readonly log: Pick<Log, 'warn'>;
  private readonly message: string;
  private readonly quietMs: number;
  private saidAtMs = -Infinity;
  private unsaid = 0;

  constructor(log: Pick<Log, 'warn'>, message: string, quietMs = 10_000) {
    this.log = log;
    this.message = message;
    this.quietMs = quietMs;
  }

  warn(fields: object): void {
    const nowMs = performance.now();
    if (nowMs - this.saidAtMs < this.quietMs) {
      this.unsaid += 1;
      return;
    }
    this.log.warn({ ...fields, unsaid: this.unsaid }, this.message);
    this.saidAtMs = nowMs;
    this.unsaid = 0;
  }
}

import type { Log } from '../../telemetry/log.ts';

/** Connections that cannot be served come by the thousand; a line in so long says enough. */
const QUIET_MS = 10_000;

/** One thing that goes wrong with connections, said with the first of them and how many were not said since. */
export class Complaint {
  private readonly log: Log;
  private readonly message: string;
  private saidAt = -Infinity;
  private unsaid = 0;

  constructor(log: Log, message: string) {
    this.log = log;
    this.message = message;
  }

  say(fields: object): void {
    const now = performance.now();
    if (now - this.saidAt < QUIET_MS) {
      this.unsaid += 1;
      return;
    }
    const { unsaid } = this;
    this.log.warn({ ...fields, unsaid }, this.message);
    [this.saidAt, this.unsaid] = [now, 0];
  }
}

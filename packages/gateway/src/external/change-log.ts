import type { Log } from '../telemetry/log.ts';
import type { LimitsAnswer } from './answer.ts';
import { sha256 } from './question.ts';

const MAX_LINES = 100;
const PER_MS = 10_000;

/** Says what changes, but never more than some lines in ten seconds: a new price list changes every tenant at once. */
export class ChangeLog {
  private readonly log: Log;
  private readonly now: () => number;
  private startedMs = -Infinity;
  private lines = 0;
  private left = 0;

  constructor(log: Log, now: () => number) {
    this.log = log;
    this.now = now;
  }

  limitsChanged(
    key: string,
    change: string,
    answers: { readonly from: LimitsAnswer; readonly to: LimitsAnswer },
  ): void {
    const fields = {
      ...shownKey(key),
      change,
      from: shownLimits(answers.from),
      to: shownLimits(answers.to),
      tenant: answers.to.tenantKey,
    };
    this.write('info', fields, 'External limits changed');
  }

  /** Which key is charged for which: an impostor of the service could charge others. */
  tenantNamed(key: string, tenant: string): void {
    this.write('info', { ...shownKey(key), tenant }, 'The external service counts a key for a tenant');
  }

  refused(key: string, field: string, why: string): void {
    this.write('warn', { ...shownKey(key), field, why }, 'A part of the external limits is not followed');
  }

  failed(key: string, reason: string, message: string): void {
    this.write('warn', { ...shownKey(key), reason, message }, 'The external limits service failed');
  }

  mistake(error: unknown): void {
    this.log.error(
      { err: error },
      'External limits could not be looked up: this is a mistake in the gateway',
    );
  }

  breakerOpened(scope: 'key' | 'global'): void {
    this.write('warn', { scope }, 'The external limits service is not asked for a while');
  }

  private write(level: 'info' | 'warn', fields: object, message: string): void {
    const now = this.now();
    if (now - this.startedMs >= PER_MS) {
      if (this.left > 0) this.log.warn({ lines: this.left }, 'Lines about external limits were left out');
      this.startedMs = now;
      this.lines = 0;
      this.left = 0;
    }
    this.lines += 1;
    if (this.lines <= MAX_LINES) this.log[level](fields, message);
    else this.left += 1;
  }
}

/** Keys may be secrets: enough to find two lines of the same one. */
function shownKey(key: string): { readonly keyHash: string } {
  return { keyHash: sha256(key).slice(0, 16) };
}

function shownLimits({ policies }: LimitsAnswer): unknown {
  if (policies.length === 0) return 'unlimited';
  return policies.map(({ name, config }) => ({ name, ...config, overrides: undefined }));
}

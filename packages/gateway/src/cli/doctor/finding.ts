import type { Config } from '../../config/config.ts';

/** One line of the examination. */
export interface DoctorFinding {
  /** What was looked at, such as `redis 127.0.0.1:6379`. */
  readonly subject: string;
  readonly verdict: 'good' | 'warning' | 'bad';
  /** What was found, in one sentence without a full stop. */
  readonly found: string;
  /** What to do about it. */
  readonly fix?: string | undefined;
}

/** What all examinations look at. */
export interface Examined {
  readonly config: Config;
  readonly readFile: (path: string) => string;
  /** How many keys the store shall have room for. */
  readonly expectedKeys: number;
  /** The clock of this machine. */
  readonly now: () => Date;
}

export function good(subject: string, found: string): DoctorFinding {
  return { subject, verdict: 'good', found };
}

export function warning(subject: string, found: string, fix: string): DoctorFinding {
  return { subject, verdict: 'warning', found, fix };
}

export function bad(subject: string, found: string, fix: string): DoctorFinding {
  return { subject, verdict: 'bad', found, fix };
}

/** `EADDRINUSE` and the like, or what the error says. */
export function reasonOf(failure: unknown): string {
  if (failure instanceof AggregateError) return reasonOf(failure.errors[0]);
  if (!(failure instanceof Error)) return String(failure);
  const code = 'code' in failure ? String(failure.code) : '';
  return code === '' || failure.message.includes(code) ? failure.message : `${code}: ${failure.message}`;
}

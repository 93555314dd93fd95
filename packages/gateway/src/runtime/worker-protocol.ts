// What the primary process and its workers tell each other.
import type { OverrideNumbers } from '../admin/overrides.ts';

/** Asked by the primary, answered by every worker. */
export type Question = 'reload' | 'metrics' | 'summary' | 'drain';

export type ToWorker =
  | { readonly spillgate: 'ask'; readonly id: number; readonly question: Question }
  | {
      readonly spillgate: 'override';
      readonly policy: string;
      readonly key: string;
      /** Undefined: what the configuration says. */
      readonly numbers?: OverrideNumbers | undefined;
    };

export type ToPrimary =
  | { readonly spillgate: 'ready'; readonly address: string; readonly port: number; readonly family: string }
  /** It cannot start, and no other attempt would help. */
  | { readonly spillgate: 'failed'; readonly message: string }
  | { readonly spillgate: 'answer'; readonly id: number; readonly value: unknown };

/** Other parts of a program may use the same channel: what is not ours is nobody's. */
export function isOurs(message: unknown): message is { readonly spillgate: string } {
  return typeof message === 'object' && message !== null && 'spillgate' in message;
}

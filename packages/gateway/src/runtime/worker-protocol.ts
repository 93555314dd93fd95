// What the primary process and its workers tell each other.
import type { OverrideNumbers } from '../admin/overrides.ts';

/** Asked by the primary, answered by every worker. */
export type Question =
  /** Is this configuration of use? All that can go wrong is done; the answer is what does. */
  | 'prepare'
  /** Take it into use, prepared or not; the answer is where clients connect then. */
  | 'reload'
  /** What was prepared is not wanted. */
  | 'abort'
  | 'metrics'
  | 'summary'
  /** Close the port, and go on serving who is connected. */
  | 'closePort'
  | 'drain';

/** The file of the configuration that is or will be in use. What stands on the disk may have been refused. */
export interface FileInUse {
  readonly fileText?: string | undefined;
}

export type ToWorker =
  | ({ readonly spillgate: 'config' } & FileInUse)
  | ({ readonly spillgate: 'ask'; readonly id: number; readonly question: Question } & FileInUse)
  | {
      readonly spillgate: 'override';
      readonly policy: string;
      readonly key: string;
      /** Undefined: what the configuration says. */
      readonly numbers?: OverrideNumbers | undefined;
    };

export type ToPrimary =
  /** It starts, and needs the configuration. */
  | { readonly spillgate: 'starting' }
  | { readonly spillgate: 'ready'; readonly address: string; readonly port: number; readonly family: string }
  /** It cannot start, and no other attempt would help. */
  | { readonly spillgate: 'failed'; readonly message: string }
  | { readonly spillgate: 'answer'; readonly id: number; readonly value: unknown };

/** Other parts of a program may use the same channel: what is not ours is nobody's. */
export function isOurs(message: unknown): message is { readonly spillgate: string } {
  return typeof message === 'object' && message !== null && 'spillgate' in message;
}

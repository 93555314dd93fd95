import type { VNode } from 'preact';

interface LevelProps {
  readonly label: string;
  /** What is left. */
  readonly value: number;
  readonly limit: number;
  /** What was left before, where that is more. */
  readonly before?: number;
  readonly denied?: boolean;
}

/** How full something is, like a tank. */
export function Level({ label, value, limit, before = value, denied = false }: LevelProps): VNode {
  const part = (amount: number): number => (limit <= 0 ? 0 : Math.max(0, Math.min(1, amount / limit)));
  return (
    <div
      class={`level ${denied ? 'denied' : ''}`}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={limit}
      aria-valuenow={Math.max(0, Math.min(limit, value))}
    >
      <div class="level-before" style={{ width: `${100 * part(before)}%` }} />
      <div class="level-now" style={{ width: `${100 * part(value)}%` }} />
    </div>
  );
}

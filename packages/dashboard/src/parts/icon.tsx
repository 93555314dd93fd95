import type { VNode } from 'preact';

/** Drawn on a field of 20 by 20. */
const PATHS = {
  live: 'M2 11h3l3-7 4 12 3-5h3',
  denials: 'M10 2.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15M4.8 4.8l10.4 10.4',
  explain:
    'M7.4 7.3a2.6 2.6 0 1 1 3.7 2.5c-.7.4-1.1.9-1.1 1.7v.4M10 14.6v.1M10 2.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15',
  keys: 'M12.5 3a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M9.3 10.7 3 17v0M5 15l2 2',
  configuration: 'M3 5h8M15 5h2M3 10h2M9 10h8M3 15h7M14 15h3M13 3v4M7 8v4M12 13v4',
  fleet: 'M3 4h14v4H3zM3 12h14v4H3zM6 6v.1M6 14v.1',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { readonly name: IconName }): VNode {
  return (
    <svg
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      stroke-width="1.6"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

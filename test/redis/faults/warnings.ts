import { eventually } from '../polling.ts';

export interface CollectedWarnings {
  readonly all: readonly { readonly code: string | undefined; readonly message: string }[];
  until(count: number): Promise<void>;
  stop(): void;
}

/** The warnings of the library that the process has seen since. */
export function collectWarnings(): CollectedWarnings {
  const all: { code: string | undefined; message: string }[] = [];
  const listener = (warning: Error & { readonly code?: string }): void => {
    if (warning.name === 'SpillgateWarning') all.push({ code: warning.code, message: warning.message });
  };
  process.on('warning', listener);
  return {
    all,
    until: (count) => eventually(`there are ${count} warnings`, () => all.length >= count),
    stop: () => process.off('warning', listener),
  };
}

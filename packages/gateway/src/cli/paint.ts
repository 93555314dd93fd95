import { wantsColour } from '../telemetry/colour.ts';

export type Paint = (style: 'bold' | 'red' | 'yellow' | 'green' | 'dim', text: string) => string;

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;

export function paintFor(env: Readonly<Record<string, string | undefined>>, isTerminal: boolean): Paint {
  if (!wantsColour(env, isTerminal)) return (_, text) => text;
  return (style, text) => `\u001b[${CODES[style]}m${text}\u001b[0m`;
}

export type Paint = (style: 'bold' | 'red' | 'yellow' | 'green' | 'dim', text: string) => string;

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;

/** Colours for terminals; plain text where `NO_COLOR` is set (https://no-color.org) or nobody watches. */
export function paintFor(env: Readonly<Record<string, string | undefined>>, isTerminal: boolean): Paint {
  const plain = (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb';
  const forced = (env['FORCE_COLOR'] ?? '0') !== '0';
  if (plain || !(isTerminal || forced)) return (_, text) => text;
  return (style, text) => `\u001b[${CODES[style]}m${text}\u001b[0m`;
}

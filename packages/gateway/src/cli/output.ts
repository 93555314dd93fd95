export type Paint = (style: 'bold' | 'red' | 'yellow' | 'green' | 'dim', text: string) => string;

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;

export function paintFor(env: Readonly<Record<string, string | undefined>>, isTerminal: boolean): Paint {
  if (!wantsColour(env, isTerminal)) return (_, text) => text;
  return (style, text) => `\u001b[${CODES[style]}m${text}\u001b[0m`;
}

/** Colours for terminals; plain text where `NO_COLOR` is set (https://no-color.org) or nobody watches. */
export function wantsColour(env: Readonly<Record<string, string | undefined>>, isTerminal: boolean): boolean {
  const plain = (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb';
  const forced = (env['FORCE_COLOR'] ?? '0') !== '0';
  return !plain && (isTerminal || forced);
}

/** The last part of a command's help: command lines, each with what it is for where that is not plain. */
export function examples(...lines: readonly (readonly [line: string, purpose?: string])[]): string {
  const width = Math.max(...lines.map(([line, purpose]) => (purpose === undefined ? 0 : line.length)));
  const rows = lines.map(([line, purpose]) =>
    purpose === undefined ? `  ${line}` : `  ${line.padEnd(width)}  ${purpose}`,
  );
  return `\nExamples:\n${rows.join('\n')}`;
}

/** The last part of a command's help: command lines, each with what it is for where that is not plain. */
export function examples(...lines: readonly (readonly [line: string, purpose?: string])[]): string {
  const width = Math.max(...lines.map(([line, purpose]) => (purpose === undefined ? 0 : line.length)));
  const rows = lines.map(([line, purpose]) =>
    purpose === undefined ? `  ${line}` : `  ${line.padEnd(width)}  ${purpose}`,
  );
  return `\nExamples:\n${rows.join('\n')}`;
}

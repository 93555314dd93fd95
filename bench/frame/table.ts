export type Format = 'plain' | 'markdown';

export interface Table {
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly string[])[];
}

export interface Column {
  readonly title: string;
  readonly align: 'left' | 'right';
}

export function renderTable(table: Table, format: Format): string {
  const widths = table.columns.map((column, index) =>
    Math.max(column.title.length, ...table.rows.map((row) => (row[index] ?? '').length)),
  );
  const line = (cells: readonly string[]): string => {
    const padded = table.columns.map((column, index) => pad(cells[index] ?? '', widths[index] ?? 0, column));
    return format === 'markdown' ? `| ${padded.join(' | ')} |` : padded.join('  ').trimEnd();
  };
  const rule = table.columns.map((column, index) => dashes(widths[index] ?? 0, column, format));
  const title = format === 'markdown' ? `### ${table.title}\n` : table.title;
  return [title, line(table.columns.map((column) => column.title)), line(rule), ...table.rows.map(line)].join(
    '\n',
  );
}

function pad(text: string, width: number, column: Column): string {
  return column.align === 'left' ? text.padEnd(width) : text.padStart(width);
}

function dashes(width: number, column: Column, format: Format): string {
  if (format === 'markdown' && column.align === 'right') return `${'-'.repeat(width - 1)}:`;
  return '-'.repeat(width);
}

import type { VNode } from 'preact';
import { rate } from '../words.ts';
import { Empty } from './card.tsx';

interface RateTableProps<Field extends string> {
  /** What a row is about. */
  readonly what: string;
  readonly columns: readonly { readonly field: Field; readonly title: string }[];
  readonly rows: readonly (Readonly<Record<Field, number>> & { readonly name: string })[];
  readonly empty: string;
}

const SHOWN_ROWS = 12;

/** Rates by name, the busiest first. */
export function RateTable<Field extends string>({
  what,
  columns,
  rows,
  empty,
}: RateTableProps<Field>): VNode {
  if (rows.length === 0) return <Empty title={empty} />;
  const sumOf = (row: (typeof rows)[number]): number =>
    columns.reduce((sum, { field }) => sum + row[field], 0);
  const sorted = rows.toSorted((one, other) => sumOf(other) - sumOf(one));
  return (
    <div class="table-wrap" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">{what}</th>
            {columns.map(({ field, title }) => (
              <th key={field} scope="col" class="number">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, SHOWN_ROWS).map((row) => (
            <tr key={row.name}>
              <td>{row.name}</td>
              {columns.map(({ field }) => (
                <td key={field} class={`number ${row[field] === 0 ? 'muted' : ''}`}>
                  {rate(row[field])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > SHOWN_ROWS ? <p class="muted">and {sorted.length - SHOWN_ROWS} more</p> : undefined}
    </div>
  );
}

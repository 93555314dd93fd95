import { expect, test } from 'vitest';

import { renderTable, type Table } from './table.ts';

const table: Table = {
  title: 'Fruit',
  columns: [
    { title: 'name', align: 'left' },
    { title: 'n', align: 'right' },
  ],
  rows: [
    ['fig', '1'],
    ['cherry', '250'],
  ],
};

test('plain text lines columns up', () => {
  expect(renderTable(table, 'plain')).toBe(
    ['Fruit', 'name      n', '------  ---', 'fig       1', 'cherry  250'].join('\n'),
  );
});

test('Markdown says which columns are numbers', () => {
  expect(renderTable(table, 'markdown')).toBe(
    ['### Fruit', '', '| name   |   n |', '| ------ | --: |', '| fig    |   1 |', '| cherry | 250 |'].join(
      '\n',
    ),
  );
});

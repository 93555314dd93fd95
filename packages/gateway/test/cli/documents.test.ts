// The commands that the documents show exist, and take the options that are shown with them.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { spillgate } from './terminal.ts';

const REPOSITORY = new URL('../../../../', import.meta.url);
const pages = [
  'README.md',
  'packages/gateway/README.md',
  ...readdirSync(new URL('docs/', REPOSITORY))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

/** `spillgate name --option ...` in the `sh` blocks of all pages. */
const shown = pages.flatMap((page) =>
  [...readFileSync(new URL(page, REPOSITORY), 'utf8').matchAll(/^```sh\n(.*?)^```$/gms)].flatMap(
    ([, block = '']) =>
      [...block.matchAll(/(?:^|[ (])spillgate ((?:api-keys )?[a-z]+)([^#\n)]*)/gm)].map(
        ([, command = '', rest = '']) => ({
          page,
          command,
          options: rest.match(/--[a-z-]+/g) ?? [],
        }),
      ),
  ),
);

test('the documents show every command that operators use', () => {
  const commands = new Set(shown.map(({ command }) => command));

  expect([...commands].toSorted()).toEqual([
    'api-keys add',
    'api-keys list',
    'api-keys revoke',
    'api-keys rotate',
    'bench',
    'block',
    'check',
    'completion',
    'config',
    'doctor',
    'explain',
    'forget',
    'health',
    'init',
    'key',
    'keys',
    'override',
    'overrides',
    'peek',
    'run',
    'schema',
    'simulate',
    'suggest',
  ]);
});

test.each([...new Set(shown.map(({ command }) => command))])(
  'spillgate %s takes the options that the documents show',
  async (command) => {
    const { stdout, exitCode } = await spillgate([...command.split(' '), '--help']);

    expect(exitCode).toBe(0);
    for (const { page, options } of shown.filter((line) => line.command === command))
      for (const option of options)
        expect(stdout, `${option} in ${page}`).toMatch(new RegExp(`^  (-\\w, )?${option}\\b`, 'm'));
  },
);

import { expect, test } from 'vitest';
import { isNotInstalled } from '../../src/optional-package.ts';

function failed(code: string | undefined, message: string): Error {
  return Object.assign(new Error(message), code === undefined ? {} : { code });
}

test.each([
  ['Node.js', failed('ERR_MODULE_NOT_FOUND', "Cannot find package 'ioredis' imported from /app/a.js")],
  ['require', failed('MODULE_NOT_FOUND', "Cannot find module 'ioredis'\nRequire stack:\n- /app/a.js")],
  ['Jest', failed('MODULE_NOT_FOUND', "Cannot find module 'ioredis' from 'node_modules/a.js'")],
  ['Bun, whose error is none', { code: 'ERR_MODULE_NOT_FOUND', message: "Cannot find package 'ioredis'" }],
])('a package that is not installed is told from the error of %s', (_, error) => {
  expect(isNotInstalled(error, 'ioredis')).toBe(true);
});

test.each([
  ['another package inside of it is missing', failed('MODULE_NOT_FOUND', "Cannot find module 'denque'")],
  ['a bundle cannot run it', failed(undefined, 'Dynamic require of "events" is not supported')],
  ['it throws no error at all', 'ioredis'],
  ['it throws nothing', undefined],
])('a package that is installed is not: %s', (_, error) => {
  expect(isNotInstalled(error, 'ioredis')).toBe(false);
});

import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { normalPath, readTarget } from '../../src/proxy/request/request-target.ts';

const piece = fc.constantFrom(
  '/',
  '//',
  '.',
  '..',
  '%2e',
  '%2E%2e',
  '%2f',
  '%5C',
  '%41',
  '%7e',
  '%c3',
  '%A9',
  '%00',
  '%',
  '%4',
  '\\',
  ';x=1',
  'a',
  'B',
  '~',
  '|',
  '{',
  '"',
  '[',
  ' ',
  '#',
  '?',
  'é',
  '\0',
  '+',
  ':',
  '@',
  '-',
  '*',
  "'",
);
const anyPath = fc
  .oneof(
    fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join('')),
    fc.string({ unit: 'binary', maxLength: 20 }),
    fc.webPath(),
  )
  .map((text) => `/${text}`);
const RUNS = { numRuns: 3000 };

test.each([
  ['/', '/'],
  ['/a', '/a'],
  ['/a/', '/a/'],
  ['//', '/'],
  ['//a///b//', '/a/b/'],
  ['/./a/./b', '/a/b'],
  ['/a/.', '/a/'],
  ['/a/..', '/'],
  ['/a/b/..', '/a/'],
  ['/a/../b', '/b'],
  ['/a/%2e%2E/b', '/b'],
  ['/a/%2e/b', '/a/b'],
  ['/.a/..b/c..', '/.a/..b/c..'],
  ['/...', '/...'],
  ['/%41%7e%5F', '/A~_'],
  ['/%c3%a9', '/%C3%A9'],
  ['/a%20b', '/a%20b'],
  ['/%25252f', '/%25252f'],
  ['/a;p=1/b', '/a;p=1/b'],
  ['/...;p/.a;p', '/...;p/.a;p'],
  ['/A/b', '/A/b'],
  ['/a|b"<>[]^`{}', '/a%7Cb%22%3C%3E%5B%5D%5E%60%7B%7D'],
  ['/*', '/*'],
])('%s is %s', (path, normal) => {
  expect(normalPath(path)).toBe(normal);
});

test.each([
  '/..',
  '/a/../..',
  '/%2e%2e',
  '/a/..;/b',
  '/a/..;x=1/b',
  '/a/.;/b',
  '/a/%2e.;',
  '/a%2fb',
  '/a%5Cb',
  '/a\\b',
  '/%00',
  '/%1f',
  '/%7F',
  '/%',
  '/%g0',
  '/a b',
  '/é',
  '/\0',
  '/#',
])('%j has no normal form', (path) => {
  expect(normalPath(path)).toBeUndefined();
});

test('the normal form of a normal form is itself', () => {
  fc.assert(
    fc.property(anyPath, (path) => {
      const normal = normalPath(path) ?? '/';
      expect(normalPath(normal)).toBe(normal);
    }),
    RUNS,
  );
});

test('no normal form has a segment that a server could still resolve, decode or read differently', () => {
  fc.assert(
    fc.property(anyPath, (path) => {
      const normal = normalPath(path) ?? '/';

      expect(normal).toMatch(/^\/[\w.~!$&'()*+,;=:@/%-]*$/);
      expect(normal).not.toContain('//');
      expect(normal.split('/')).not.toContain('.');
      expect(normal.split('/')).not.toContain('..');
      expect(normal).not.toMatch(/%(?![\dA-F]{2})|%(?:2F|5C|[01][\dA-F]|7F)/);
      // What can be decoded once has been.
      expect(normal).not.toMatch(/%(?:2D|2E|3\d|4[1-9A-F]|5[\dA]|5F|6[1-9A-F]|7[\dA]|7E)/);
    }),
    RUNS,
  );
});

test('a normal form means the same as what was sent', () => {
  fc.assert(
    fc.property(anyPath, (path) => {
      const normal = normalPath(path);
      fc.pre(normal !== undefined && !path.includes('?') && !path.includes('#'));

      // The URL standard resolves dots too, and knows nothing of slashes that are merged. A dot segment behind an empty one differs.
      fc.pre(!path.includes('//'));
      const standard = decodeBytes(new URL(`http://a${path}`).pathname);
      expect(decodeBytes(normal)).toBe(standard);
    }),
    RUNS,
  );
});

test('a path that is plain is not looked at twice: both ways agree', () => {
  fc.assert(
    fc.property(anyPath, (path) => {
      // An escape that is not needed leads past the fast way, and back to the same path.
      const normal = normalPath(path);
      fc.pre(normal !== undefined && !path.endsWith('/') && !path.endsWith('.') && !/%2e$/i.test(path));
      expect(normalPath(`${path}%61`)).toBe(`${normal}a`);
    }),
    RUNS,
  );
});

test.each([
  ['/a?b=/../c', { authority: undefined, path: '/a', query: '?b=/../c' }],
  ['/a?', { authority: undefined, path: '/a', query: '?' }],
  ['/a?b?c', { authority: undefined, path: '/a', query: '?b?c' }],
  ['http://h:1/a?b', { authority: 'h:1', path: '/a', query: '?b' }],
  ['HTTPS://h', { authority: 'h', path: '/', query: '' }],
  ['http://h?b', { authority: 'h', path: '/', query: '?b' }],
  ['http://h\\@x/', { authority: 'h\\@x', path: '/', query: '' }],
])('%s is read', (target, read) => {
  expect(readTarget(target)).toEqual(read);
});

test.each([
  '',
  '*',
  'a',
  'a/b',
  'ftp://a/',
  'http:/a',
  'http:a',
  '//a\x7f',
  'http://a/#b',
  '/a?b c',
  '/a?\xe9',
])('%j is no target', (target) => {
  expect(readTarget(target)).toBeUndefined();
});

function decodeBytes(path: string): string {
  return path.replace(/%([\da-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

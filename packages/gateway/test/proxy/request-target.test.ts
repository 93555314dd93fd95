import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { normalPath, readTarget } from '../../src/proxy/request/request-target.ts';
import { runs } from '../../../../test/runs.ts';

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
const pathWithSlashes = fc
  .array(fc.constantFrom('/', '%2f', '%2F', '.', '..', '%2e', 'a', ';x', '%c3', '[', '~'), { maxLength: 12 })
  .map((pieces) => `/${pieces.join('')}`);

const RUNS = { numRuns: runs(3000) };

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

      // The URL standard resolves dots too, and knows nothing of slashes that are merged. A dot segment behind an empty
      // one differs.
      fc.pre(!path.includes('//'));
      // Node.js 20 leaves the last dot of "/.a/." where it is.
      fc.pre(!/\/(?:\.|%2e)$/i.test(path));
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
  ['/a?b=/../c', { authority: undefined, path: '/a', otherPath: undefined, query: '?b=/../c' }],
  ['/a?', { authority: undefined, path: '/a', otherPath: undefined, query: '?' }],
  ['/a?b?c', { authority: undefined, path: '/a', otherPath: undefined, query: '?b?c' }],
  ['http://h:1/a?b', { authority: 'h:1', path: '/a', otherPath: undefined, query: '?b' }],
  ['HTTPS://h', { authority: 'h', path: '/', otherPath: undefined, query: '' }],
  ['http://h?b', { authority: 'h', path: '/', otherPath: undefined, query: '?b' }],
  ['http://h\\@x/', { authority: 'h\\@x', path: '/', otherPath: undefined, query: '' }],
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

test.each([
  ['/a%2fb', '/a%2Fb', '/a/b'],
  ['/a/%2Fb', '/a/%2Fb', '/a/b'],
  ['/a%2F', '/a%2F', '/a/'],
  ['/a%2F%2Fb/../c', '/c', undefined],
  ['/a/..%2Fb', '/a/..%2Fb', '/b'],
  ['/a/x%2F..%2F..%2Fadmin', '/a/x%2F..%2F..%2Fadmin', '/admin'],
  ['/%40scope%2Fpackage', '/%40scope%2Fpackage', '/%40scope/package'],
  ['/a%252Fb', '/a%252Fb', undefined],
])('with encoded slashes kept, %s is %s, or %s to who decodes them', (target, path, otherPath) => {
  expect(readTarget(target, 'keep')).toEqual({ authority: undefined, path, otherPath, query: '' });
});

test.each(['/..%2Fa', '/a%2F..%2F..', '/a/..;%2Fb', '/a%5Cb', '/a%2F%00', '/a%2'])(
  '%j has no normal form, even with encoded slashes kept',
  (target) => {
    expect(readTarget(target, 'keep')).toBeUndefined();
  },
);

test('with encoded slashes kept, both readings of a path are normal forms, and nothing else changes', () => {
  fc.assert(
    fc.property(fc.oneof(anyPath, pathWithSlashes), (path) => {
      const strict = readTarget(path);
      const kept = readTarget(path, 'keep');
      if (strict !== undefined || kept === undefined) {
        expect(kept).toEqual(strict);
        return;
      }

      // Only a %2F makes a difference.
      expect(path).toMatch(/%2f/i);
      const plain = kept.path.replaceAll('%2F', 'Q');
      expect(normalPath(plain)).toBe(plain);
      expect(readTarget(kept.path, 'keep')).toEqual({ ...kept, query: '' });
      if (kept.otherPath === undefined) expect(kept.path).not.toContain('%2F');
      else expect(kept.otherPath).toBe(normalPath(kept.path.replaceAll('%2F', '/')));
    }),
    RUNS,
  );
});

test('whoever decodes an encoded slash that was kept finds what rules were asked about', () => {
  fc.assert(
    fc.property(pathWithSlashes, (path) => {
      const kept = readTarget(path, 'keep');
      fc.pre(kept?.otherPath !== undefined);

      // A server that decodes first and resolves dots then.
      expect(kept.otherPath).toBe(resolved(kept.path.replaceAll('%2F', '/').replaceAll(/\/{2,}/g, '/')));
    }),
    RUNS,
  );
});

/** RFC 3986 §5.2.4, word by word. */
function resolved(path: string): string {
  let input = path;
  let output = '';
  while (input !== '') {
    if (input.startsWith('/./') || input === '/.') input = `/${input.slice(3)}`;
    else if (input.startsWith('/../') || input === '/..') {
      input = `/${input.slice(4)}`;
      output = output.slice(0, Math.max(0, output.lastIndexOf('/')));
    } else {
      const end = input.indexOf('/', 1);
      output += end === -1 ? input : input.slice(0, end);
      input = end === -1 ? '' : input.slice(end);
    }
  }
  return output;
}

function decodeBytes(path: string): string {
  return path.replace(/%([\da-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

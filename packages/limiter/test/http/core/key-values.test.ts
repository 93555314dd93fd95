import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { cookieValue, headerValue, queryValue } from '../../../src/http/index.ts';
import { runs } from '../../../../../test/runs.ts';

const missing = expect.objectContaining({ missing: true });
const refused = expect.objectContaining({ missing: false });

test.each<[string, readonly string[], unknown]>([
  ['one cookie', ['sid=ann'], 'ann'],
  ['among others', ['a=b; sid=ann; c=d'], 'ann'],
  ['without the space', ['a=b;sid=ann'], 'ann'],
  ['with more spaces', ['a=b;  sid \t= \tann \t'], 'ann'],
  ['in quotes', ['sid="ann"'], 'ann'],
  ['percent-encoded', ['sid=%61%6e%6E'], 'ann'],
  ['encoded in quotes', ['sid="%61nn"'], 'ann'],
  ['with an encoded name', ['%73id=ann'], 'ann'],
  ['with an equals sign', ['sid=a=b=='], 'a=b=='],
  ['on the second line', ['a=b', 'sid=ann'], 'ann'],
  ['an encoded space', ['sid=a%20b'], 'a b'],
  ['no cookie at all', [], missing],
  ['another cookie', ['side=ann; xsid=ann'], missing],
  ['another case', ['SID=ann'], missing],
  ['no value', ['sid='], missing],
  ['an empty value in quotes', ['sid=""'], missing],
  ['no equals sign', ['sid'], missing],
  ['twice', ['sid=ann; sid=bob'], refused],
  ['twice the same', ['sid=ann; sid=ann'], refused],
  ['on two lines', ['sid=ann', 'sid=bob'], refused],
  ['twice, once encoded', ['sid=ann; %73id=bob'], refused],
  ['half a quote', ['sid="ann'], refused],
  ['quotes inside', ['sid=a"n"n'], refused],
  ['a space inside', ['sid=an n'], refused],
  ['a comma', ['sid=a,b'], refused],
  ['a backslash', ['sid=a\\nn'], refused],
  ['bytes beyond ASCII', ['sid=\u00e9'], refused],
  ['a broken escape', ['sid=%6'], refused],
  ['an escape that is none', ['sid=%zz'], refused],
  ['bytes that are not UTF-8', ['sid=%ff'], refused],
  ['an overlong encoding', ['sid=%c1%a1'], refused],
])('a cookie has one reading: %s', (_, lines, expected) => {
  expect(cookieValue(lines, 'sid')).toEqual(expected);
});

test.each<[string, string, unknown]>([
  ['one parameter', '?key=ann', 'ann'],
  ['among others', '?a=b&key=ann&c', 'ann'],
  ['encoded', '?key=%61%6e%6E', 'ann'],
  ['with an encoded name', '?k%65y=ann', 'ann'],
  ['a plus', '?key=a+b', 'a b'],
  ['an encoded space', '?key=a%20b', 'a b'],
  ['an encoded plus', '?key=a%2Bb', 'a+b'],
  ['an equals sign', '?key=a=b', 'a=b'],
  ['quotes stay', '?key="ann"', '"ann"'],
  ['a semicolon does not separate', '?key=a;key=b', 'a;key=b'],
  ['no query', '', missing],
  ['an empty query', '?', missing],
  ['other parameters', '?keys=ann&xkey=ann', missing],
  ['behind a semicolon', '?a=1;key=ann', missing],
  ['another case', '?KEY=ann', missing],
  ['no value', '?key=', missing],
  ['no equals sign', '?key', missing],
  ['twice', '?key=ann&key=bob', refused],
  ['twice the same', '?key=ann&key=ann', refused],
  ['twice, once encoded', '?key=ann&%6bey=bob', refused],
  ['twice, once empty', '?key=ann&key', refused],
  ['a broken escape', '?key=%6', refused],
  ['bytes that are not UTF-8', '?key=%ff', refused],
])('a query parameter has one reading: %s', (_, query, expected) => {
  expect(queryValue(query, 'key')).toEqual(expected);
});

test('a header is one line that is not empty', () => {
  expect(headerValue(['ann'], 'x-key')).toBe('ann');
  expect(headerValue([''], 'x-key')).toEqual(missing);
  expect(headerValue([], 'x-key')).toEqual(missing);
  expect(headerValue(['ann', 'ann'], 'x-key')).toEqual(refused);
});

/** A text with some of its characters percent-encoded, as the numbers say. */
function respelled(text: string, choices: readonly boolean[]): string {
  return Array.from(encodeURIComponent(text).matchAll(/%[\dA-F]{2}|./gs), ([part], at) => {
    if (part.length > 1) return choices[at] === true ? part.toLowerCase() : part;
    return choices[at] === true ? `%${part.charCodeAt(0).toString(16)}` : part;
  }).join('');
}

test('no spelling of a value gets another key', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }),
      fc.array(fc.boolean(), { minLength: 48, maxLength: 48 }),
      fc.boolean(),
      (value, choices, quoted) => {
        const written = respelled(value, choices);
        expect(queryValue(`?key=${written}`, 'key')).toBe(value);
        expect(cookieValue([quoted ? `sid="${written}"` : `sid=${written}`], 'sid')).toBe(value);
      },
    ),
    { numRuns: runs(5000) },
  );
});

test.each<[string, string]>([
  ['in a name', `a${' \t'.repeat(65_536)}b=c`],
  ['in a value', `sid=a${' \t'.repeat(65_536)}b`],
])('a long run of spaces %s is read in one go', (_, line) => {
  const before = process.cpuUsage();

  cookieValue([line], 'sid');

  // A millisecond; a look back from every space would take this process half a minute.
  expect(process.cpuUsage(before).user).toBeLessThan(5_000_000);
});

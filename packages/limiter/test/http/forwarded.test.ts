// `Forwarded` as RFC 7239 has it.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { clientAddress } from '../../src/http/client-address.ts';
import { CLIENT, clientOf, PROXY, request, summary } from './requests.ts';
import { runs } from '../../../../test/runs.ts';

const BEHIND = { trustedProxies: 'private', source: 'forwarded' } as const;
const JUNK = [PROXY, 'peer', 'junk'];

describe('what the grammar allows', () => {
  test.each([
    ['a token', `for=${CLIENT}`],
    ['a quoted string', `for="${CLIENT}"`],
    ['a port', `for="${CLIENT}:80"`],
    ['an obfuscated port', `for="${CLIENT}:_x.Y-1"`],
    ['escapes', 'for="\\2\\03.0.113.\\7"'],
    ['mapped IPv4', `for="[::ffff:${CLIENT}]"`],
    ['names in any case', `FOR=${CLIENT}`],
    ['other parameters around', `by=10.0.0.9;for=${CLIENT};host="a,b;for=6.6.6.6\\",";proto=http`],
    ['unknown parameters', `__proto__=1;!#$%&'*+-.^_\`|~=x;for=${CLIENT}`],
    ['spaces around semicolons', ` by=x ;\tfor=${CLIENT} ; proto=http `],
    ['empty pairs', `;;for=${CLIENT};; `],
    ['several elements', `for=6.6.6.6, for=${CLIENT};by=x,for=10.0.0.2`],
    ['the upper half of Latin-1 in a string', `for=${CLIENT};x="\u0080\u00ff"`],
    ['a tab and a tilde in a string', `for=${CLIENT};x="\t~"`],
    ['an empty string', `x="";for=${CLIENT}`],
    ['strings that end in backslashes', `x="\\\\";for=${CLIENT};y="a\\\\\\\\"`],
    ['a string of quotes', `x="\\"\\"";for=${CLIENT};y="\\\\\\""`],
    ['a string of commas', `x=",,,";for=${CLIENT};y=","`],
  ])('%s', (_, line) => {
    expect(summary(clientOf(BEHIND, PROXY, { forwarded: line }))).toEqual([CLIENT, 'header']);
  });

  test('IPv6, with and without a port', () => {
    const lines = ['for="[2001:db8::1]:4711";proto=https', 'for="[2001:DB8::1]"'];

    expect(lines.map((line) => clientOf(BEHIND, PROXY, { forwarded: line }).key)).toEqual([
      '2001:db8::/64',
      '2001:db8::/64',
    ]);
  });

  test('several lines, and a number of hops', () => {
    const lines = ['for=6.6.6.6', `for=${CLIENT}`, 'for=10.0.0.2'];
    const hops = { trustedProxies: { hops: 2 }, source: 'forwarded' } as const;

    expect(summary(clientOf(BEHIND, PROXY, { forwarded: lines }))).toEqual([CLIENT, 'header']);
    expect(summary(clientOf(hops, PROXY, { forwarded: lines }))).toEqual([CLIENT, 'header']);
  });
});

describe('what is junk', () => {
  test.each([
    ['a hidden hop', 'for="[2001:db8::1]:4711";proto=https, for=_x'],
    ['unknown', `for=${CLIENT}, for=unknown`],
    ['unknown with a port', `for=${CLIENT}, for="unknown:80"`],
    ['no for', `for=${CLIENT}, by=10.0.0.2`],
    ['two for', `for=${CLIENT};for=${CLIENT}`],
    ['two for in different case', `for=${CLIENT};For=6.6.6.6`],
    ['nothing', ''],
    ['an empty element', `for=${CLIENT}, `],
    ['only semicolons', ';;'],
    ['no value', 'for='],
    ['an empty value', 'for=""'],
    ['no equals sign', 'for'],
    ['no name', `=${CLIENT}`],
    ['a space before the equals sign', `for =${CLIENT}`],
    ['a space after the equals sign', `for= ${CLIENT}`],
    ['IPv6 that is not quoted', 'for=[2001:db8::1]'],
    ['IPv6 without brackets', 'for="2001:db8::1"'],
    ['a port that is not quoted', `for=${CLIENT}:80`],
    ['a space inside of the value', `for=" ${CLIENT}"`],
    ['a quote that is not closed', `for="${CLIENT}`],
    ['a quote that is not opened', `for=${CLIENT}"`],
    ['a quote that is escaped at the end', `for="${CLIENT}\\"`],
    ['text after a string', `for="${CLIENT}"x`],
    ['a second string', `for="${CLIENT}" "x"`],
    ['two pairs without a semicolon', `for=${CLIENT} by=x`],
    ['a line break in a string', `for=${CLIENT};x="\n"`],
    ['a control character in a string', `for=${CLIENT};x="\u001f"`],
    ['DEL in a string', `for=${CLIENT};x="\u007f"`],
    ['an escaped NUL', `for=${CLIENT};x="\\\u0000"`],
    ['a character that HTTP does not have', `for=${CLIENT};x="\u0100"`],
    ['DEL in a token', `for=${CLIENT};x=\u007f`],
    ['a letter beyond ASCII in a token', `for=${CLIENT};x=é`],
    ['a backslash outside of a string', `for=\\${CLIENT}`],
    ['a broken pair after a good one', `for=${CLIENT};b@d=1`],
    ['a broken value after a good one', `for=${CLIENT};x=(1)`],
  ])('%s', (_, line) => {
    expect(summary(clientOf(BEHIND, PROXY, { forwarded: line }))).toEqual(JUNK);
  });

  test('ends the walk at the last good trusted hop', () => {
    const line = `for=${CLIENT}, for=_x, for=10.0.0.2`;

    expect(summary(clientOf(BEHIND, PROXY, { forwarded: line }))).toEqual(['10.0.0.2', 'header', 'junk']);
  });
});

describe('what a client sends cannot swallow or change what the proxy appends', () => {
  const clients = clientAddress(BEHIND);
  const appended = `for=${CLIENT};by="10.0.0.1:80";host="a\\"b,\\\\"`;

  test.each(['for="', 'for="x\\', 'x="a\\\\', '"', '\\', 'for="a", "', 'for=6.6.6.6, for="', '\\"\\"\\', ''])(
    '%j',
    (hostile) => {
      expect(summary(clients(request(PROXY, { forwarded: `${hostile}, ${appended}` })))).toEqual([
        CLIENT,
        'header',
      ]);
      expect(summary(clients(request(PROXY, { forwarded: [hostile, appended] })))).toEqual([
        CLIENT,
        'header',
      ]);
    },
  );

  test('nor can anything else that is made of the characters that matter', () => {
    const hostile = fc.string({ unit: fc.constantFrom(...'"\\,;=for [].:10'.split('')), maxLength: 30 });
    fc.assert(
      fc.property(hostile, (text) => {
        expect(summary(clients(request(PROXY, { forwarded: `${text},${appended}` })))).toEqual([
          CLIENT,
          'header',
        ]);
      }),
      { numRuns: runs(5000) },
    );
    expect.hasAssertions();
  });
});

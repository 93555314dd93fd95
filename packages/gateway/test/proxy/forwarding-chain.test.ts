// What the backend is told about who asked: it must not believe anybody whom the gateway did not believe.
import * as fc from 'fast-check';
import { clientAddress, type ClientAddress } from 'spillgate/http';
import { expect, test } from 'vitest';
import { passedOn } from './passed-on.ts';
import { runs } from '../../../../test/runs.ts';

type Source = 'x-forwarded-for' | 'forwarded';
type Trust = readonly string[] | number;

interface Setup {
  readonly source: Source;
  readonly trust: Trust;
  readonly peer: string;
  readonly lines: readonly string[];
  readonly others?: readonly string[];
}

/** Whom the gateway decided on, and what its backend gets, by lower-case name. */
function pass({ source, trust, peer, lines, others = [] }: Setup) {
  const trusted = typeof trust === 'number' ? { trusted_hops: trust } : { trusted_proxies: trust };
  const { client, headers } = passedOn({
    config: {
      server: { client_address: { ...trusted, source } },
      backend: { forwarded_headers: ['x-forwarded', 'forwarded'] },
    },
    peer,
    rawHeaders: ['Host', 'a.example', ...lines.flatMap((line) => [source, line]), ...others],
  });
  return {
    client,
    sent: new Map(Object.entries(headers).map(([name, values]) => [name, values.join(', ')])),
  };
}

test('a header with fewer entries than hops is not believed, and goes no further', () => {
  const { client, sent } = pass({
    source: 'x-forwarded-for',
    trust: 2,
    peer: '192.0.2.1',
    lines: ['9.9.9.9'],
    others: ['X-Forwarded-Proto', 'https', 'X-Forwarded-Host', 'evil', 'X-Forwarded-Prefix', '/evil'],
  });

  expect(client.address).toBe('192.0.2.1');
  expect(sent.get('x-forwarded-for')).toBe('192.0.2.1');
  expect(sent.get('x-forwarded-proto')).toBe('http');
  expect(sent.get('x-forwarded-host')).toBe('a.example');
  expect(sent.has('x-forwarded-prefix')).toBe(false);
  expect(sent.get('forwarded')).toBe('for=192.0.2.1;host="a.example";proto=http');
});

test.each([
  [
    'x-forwarded-for',
    '2001:db8::1',
    'forwarded',
    'for="[2001:db8::1]", for=10.0.0.1;host="a.example";proto=http',
  ],
  ['forwarded', 'for="[2001:db8::1]"', 'x-forwarded-for', '2001:db8::1, 10.0.0.1'],
] as const)(
  'a client that %s names is named in the other header as well',
  (source, line, other, expected) => {
    const lies = [other, '6.6.6.6'];
    const { sent } = pass({ source, trust: ['10.0.0.0/8'], peer: '10.0.0.1', lines: [line], others: lies });

    expect(sent.get(other)).toBe(expected);
  },
);

const OURS = 'for=10.0.0.1;host="a.example";proto=http';

test.each([
  ['a quote that stays open', ['for="1.2.3.4'], OURS],
  ['junk at the right end', ['for=1.2.3.4, for=_hidden'], OURS],
  ['a quote that stays open further left', ['for="x, for=1.2.3.4'], `for=unknown, for=1.2.3.4, ${OURS}`],
  ['one in the line before', ['for="x', 'for=1.2.3.4'], `for=unknown, for=1.2.3.4, ${OURS}`],
  ['a backslash outside of quotes', ['by=\\", for=1.2.3.4'], `for=unknown, for=1.2.3.4, ${OURS}`],
  [
    'a comma inside of quotes',
    ['for="x, for=1.2.3.4;by="a, \\"b", for=10.0.0.2'],
    `for=unknown, for=1.2.3.4;by="a, \\"b", for=10.0.0.2, ${OURS}`,
  ],
  [
    'more commas than are looked at',
    [`for="x, for=1.2.3.4;by="${','.repeat(200)}"`],
    `for=unknown, for=1.2.3.4, ${OURS}`,
  ],
  ['quotes that close', ['for="a, \\"b\\\\", for=1.2.3.4'], `for="a, \\"b\\\\", for=1.2.3.4, ${OURS}`],
])('our element is not swallowed by %s', (_name, lines, expected) => {
  const { sent } = pass({ source: 'forwarded', trust: ['10.0.0.0/8'], peer: '10.0.0.1', lines });

  expect(sent.get('forwarded')).toBe(expected);
});

const GATEWAY = '198.18.0.1';
const addresses = fc.constantFrom('10.0.0.1', '10.0.0.2', '192.0.2.1', '2001:db8::1', 'fd00::7');
const nodes: Readonly<Record<Source, fc.Arbitrary<string>>> = {
  'x-forwarded-for': fc.oneof(
    { weight: 4, arbitrary: addresses },
    fc.constantFrom('', 'unknown', '127.1', '"x'),
  ),
  forwarded: fc.oneof(
    { weight: 4, arbitrary: addresses.map((address) => `for="[${address}]"`.replace(/\[([^:]+)\]/, '$1')) },
    fc.constantFrom(
      '',
      'for=unknown',
      'for=_x',
      'for="1.2.3.4',
      'by="a,b";for=192.0.2.1',
      '"',
      '\\',
      'for=a"b"',
    ),
  ),
};
const setups: fc.Arbitrary<Setup> = fc.constantFrom<Source>('x-forwarded-for', 'forwarded').chain((source) =>
  fc.record({
    source: fc.constant(source),
    trust: fc.oneof(
      fc.integer({ min: 1, max: 4 }),
      fc.subarray(['10.0.0.0/8', 'fd00::/8', '2001:db8::/32'], { minLength: 1 }),
    ),
    peer: addresses,
    lines: fc.array(
      fc.array(nodes[source], { minLength: 1, maxLength: 4 }).map((entries) => entries.join(', ')),
      { maxLength: 3 },
    ),
  }),
);

test('a backend that trusts the gateway as well finds the same client, or only the peer is named', () => {
  fc.assert(
    fc.property(setups, (setup) => {
      const { client, sent } = pass(setup);
      const chain = sent.get(setup.source) ?? '';

      const nothingBelieved = client.from === 'peer' && typeof setup.trust === 'number';
      if (nothingBelieved) expect(elementsOf(setup.source, chain)).toHaveLength(1);
      else expect(backendsView(setup, chain).address).toBe(client.address);
      expect(elementsOf(setup.source, chain).at(-1)).toContain(setup.peer);
    }),
    { numRuns: runs(2000) },
  );
});

function backendsView({ source, trust }: Setup, chain: string): ClientAddress {
  const trustedProxies = typeof trust === 'number' ? { hops: trust + 1 } : [...trust, GATEWAY];
  return clientAddress({ trustedProxies, source })({
    peer: GATEWAY,
    headerLines: (name) => (name === source ? [chain] : []),
  });
}

/** As a reader splits a list who begins at the left, and who knows of quotes where there are any. */
function elementsOf(source: Source, list: string): readonly string[] {
  if (source === 'x-forwarded-for') return list.split(',');
  const found = [''];
  let quoted = false;
  for (let at = 0; at < list.length; at += 1) {
    const letter = list.charAt(at);
    if (quoted && letter === '\\') at += 1;
    else if (letter === '"') quoted = !quoted;
    if (letter === ',' && !quoted) found.push('');
    else found.push((found.pop() ?? '') + letter);
  }
  return found;
}

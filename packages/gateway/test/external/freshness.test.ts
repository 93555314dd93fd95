import { expect, test } from 'vitest';
import { freshnessOf, type CacheHeaders } from '../../src/external/freshness.ts';

const NOW = Date.parse('Mon, 16 Nov 2026 12:00:00 GMT');
const DEFAULTS = { freshMs: 60_000, staleMs: 300_000 };
const NOWHERE = 'nowhere';

interface Body {
  readonly age?: number;
  readonly noStore?: boolean;
}

function at(offsetSeconds: number): string {
  return new Date(NOW + offsetSeconds * 1000).toUTCString();
}

function seconds(headers: CacheHeaders | undefined, { age, noStore = false }: Body): unknown {
  const { freshMs, staleMs } = freshnessOf(
    headers,
    { cacheMaxAgeSeconds: age, cacheNoStore: noStore },
    { defaults: DEFAULTS, nowMs: NOW },
  );
  if (freshMs + staleMs === 0) return NOWHERE;
  return staleMs === DEFAULTS.staleMs ? freshMs / 1000 : [freshMs / 1000, staleMs / 1000];
}

interface Headers {
  readonly cc?: string | readonly string[];
  readonly expires?: string | readonly string[];
  readonly date?: string;
  readonly age?: string;
}

/** Headers, body, and for how many seconds the answer is fresh; with a second number, how long it may stand in. */
const HTTP: readonly (readonly [Headers, Body, unknown])[] = [
  // Nothing but the body.
  [{}, {}, 60],
  [{}, { age: 0 }, 60],
  [{}, { age: 1 }, 1],
  [{}, { age: 300 }, 300],
  [{}, { age: 10 ** 9 }, 86_400],
  [{}, { noStore: true }, NOWHERE],
  [{}, { noStore: true, age: 300 }, NOWHERE],
  // max-age, and what it is stronger than.
  [{ cc: 'max-age=10' }, {}, 10],
  [{ cc: 'max-age=10' }, { age: 300 }, 10],
  [{ cc: 'max-age=300' }, { age: 10 }, 300],
  [{ cc: 'max-age=10', expires: at(500) }, {}, 10],
  [{ cc: 'max-age=500', expires: at(10) }, {}, 500],
  [{ cc: 'max-age=10', expires: '0' }, {}, 10],
  [{ cc: 'max-age=0' }, {}, 0],
  [{ cc: 'max-age=0' }, { age: 300 }, 0],
  [{ cc: 'max-age=1000000000' }, {}, 86_400],
  [{ cc: `max-age=${'9'.repeat(400)}` }, {}, 86_400],
  // How it may be written.
  [{ cc: 'MAX-AGE=10' }, {}, 10],
  [{ cc: 'Max-Age="60"' }, {}, 60],
  [{ cc: ' max-age=10 ' }, {}, 10],
  [{ cc: ',,max-age=10,' }, {}, 10],
  [{ cc: 'public, max-age=10' }, {}, 10],
  [{ cc: 'foo="a, max-age=5", max-age=10' }, {}, 10],
  [{ cc: 'foo="no-store", max-age=10' }, {}, 10],
  [{ cc: 'foo="a\\"b, no-store", max-age=10' }, {}, 10],
  [{ cc: 'x-max-age=5' }, {}, 60],
  [{ cc: 'max-ages=5' }, {}, 60],
  // What is no number is 0.
  [{ cc: 'max-age=-1' }, {}, 0],
  [{ cc: 'max-age=1e9' }, {}, 0],
  [{ cc: 'max-age=10.5' }, {}, 0],
  [{ cc: 'max-age=' }, {}, 0],
  [{ cc: 'max-age' }, {}, 0],
  [{ cc: "max-age='10'" }, {}, 0],
  [{ cc: 'max-age= 10' }, {}, 0],
  [{ cc: 'max-age=10s' }, {}, 0],
  [{ cc: 'max-age=+10' }, {}, 0],
  [{ cc: 'max-age=0x10' }, {}, 0],
  [{ cc: 'max-age=a' }, { age: 300 }, 0],
  // Of several the smallest.
  [{ cc: 'max-age=10, max-age=20' }, {}, 10],
  [{ cc: 'max-age=20, max-age=10' }, {}, 10],
  [{ cc: ['max-age=20', 'max-age=10'] }, {}, 10],
  [{ cc: 'max-age=20, max-age=x' }, {}, 0],
  [{ cc: 's-maxage=5' }, {}, 5],
  [{ cc: 's-maxage=5, max-age=100' }, {}, 5],
  [{ cc: 's-maxage=100, max-age=5' }, {}, 5],
  // What forbids is final.
  [{ cc: 'no-store' }, {}, NOWHERE],
  [{ cc: 'no-store' }, { age: 300 }, NOWHERE],
  [{ cc: 'no-cache' }, {}, NOWHERE],
  [{ cc: 'no-cache' }, { age: 300 }, NOWHERE],
  [{ cc: 'No-Store' }, {}, NOWHERE],
  [{ cc: 'private' }, {}, NOWHERE],
  [{ cc: 'max-age=10, no-store' }, {}, NOWHERE],
  [{ cc: 'no-store, max-age=10' }, {}, NOWHERE],
  [{ cc: 'no-cache, max-age=10' }, {}, NOWHERE],
  [{ cc: 'no-cache="set-cookie", max-age=10' }, {}, NOWHERE],
  [{ cc: 'no-store=1, max-age=10' }, {}, NOWHERE],
  [{ cc: ['max-age=10', 'no-store'] }, {}, NOWHERE],
  [{ cc: 'no-store', expires: at(500) }, {}, NOWHERE],
  [{ cc: 'max-age=10' }, { noStore: true }, NOWHERE],
  [{ cc: 'max-age=10' }, { noStore: true, age: 300 }, NOWHERE],
  [{ expires: at(500) }, { noStore: true }, NOWHERE],
  [{ cc: 'foo="bar, max-age=10' }, {}, NOWHERE],
  // Expires, where there is no max-age.
  [{ expires: at(120) }, {}, 120],
  [{ expires: at(120) }, { age: 300 }, 120],
  [{ cc: 'public', expires: at(120) }, {}, 120],
  [{ expires: at(0) }, {}, 0],
  [{ expires: at(-100) }, {}, 0],
  [{ expires: at(-100) }, { age: 300 }, 0],
  [{ expires: '0' }, {}, 0],
  [{ expires: '-1' }, {}, 0],
  [{ expires: '' }, {}, 0],
  [{ expires: 'tomorrow' }, {}, 0],
  [{ expires: '2026-11-16T13:00:00Z' }, {}, 0],
  [{ expires: 'Mon, 16 Nov 2026 13:00:00 PST' }, {}, 0],
  [{ expires: at(10 ** 8) }, {}, 86_400],
  [{ expires: [at(500), at(100)] }, {}, 100],
  [{ expires: [at(500), '0'] }, {}, 0],
  // Two clocks: the shorter time.
  [{ expires: at(120), date: at(0) }, {}, 120],
  [{ expires: at(120), date: at(100) }, {}, 20],
  [{ expires: at(120), date: at(1000) }, {}, 0],
  [{ expires: at(120), date: at(-1000) }, {}, 120],
  [{ expires: at(120), date: 'yesterday' }, {}, 120],
  // What was on the way for a while is older.
  [{ cc: 'max-age=10', age: '4' }, {}, 6],
  [{ cc: 'max-age=10', age: '40' }, {}, 0],
  [{ cc: 'max-age=10', age: 'x' }, {}, 10],
  // Standing in.
  [{ cc: 'max-age=10, must-revalidate' }, {}, [10, 0]],
  [{ cc: 'max-age=10, proxy-revalidate' }, {}, [10, 0]],
  [{ cc: 'max-age=0, must-revalidate' }, {}, NOWHERE],
  [{ cc: 'max-age=10, stale-if-error=30' }, {}, [10, 30]],
  [{ cc: 'max-age=10, stale-if-error=9999' }, {}, 10],
  [{ cc: 'max-age=10, stale-if-error=x' }, {}, [10, 0]],
];

test.each(HTTP)('HTTP: %j with the body %j is fresh for %j s', (headers, body, expected) => {
  const lines = (value: string | readonly string[] | undefined) =>
    value === undefined ? [] : typeof value === 'string' ? [value] : value;

  const given = {
    cacheControl: lines(headers.cc),
    expires: lines(headers.expires),
    date: headers.date,
    age: headers.age,
  };

  expect(seconds(given, body)).toEqual(expected);
});

test.each<readonly [Body, unknown]>([
  [{}, 60],
  [{ age: 0 }, 60],
  [{ age: 1 }, 1],
  [{ age: 300 }, 300],
  [{ age: 86_401 }, 86_400],
  [{ noStore: true }, NOWHERE],
  [{ noStore: true, age: 300 }, NOWHERE],
])('gRPC: the body %j is fresh for %j s', (body, expected) => {
  expect(seconds(undefined, body)).toEqual(expected);
});

import { fromBinary, toJson } from '@bufbuild/protobuf';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseAnswer } from '../../src/external/answer.ts';
import { parseCacheControl, freshnessOf, MAX_FRESH_MS } from '../../src/external/freshness.ts';
import { LimitsCompiler } from '../../src/external/compiled-limits.ts';
import { ServiceFailure } from '../../src/external/service/service.ts';
import { parseStrictJson } from '../../src/external/strict-json.ts';
import { MESSAGES } from '../../src/external/wire/definition.ts';
import { responseMessage, fromProtoJson } from '../../src/external/wire/descriptors.ts';
import { runs } from '../../../../test/runs.ts';

const compiler = new LimitsCompiler({
  failurePolicy: 'inMemoryFallback',
  backendUrlComplaint: () => undefined,
});

/** Limits that hold together, or a failure that says what is wrong; anything else is thrown on. */
function outcomeOf(read: () => unknown): 'limits' | 'failure' | 'nonsense' {
  try {
    const { limits } = compiler.compile(parseAnswer(read()));
    const holds =
      (limits.policies ?? []).every(({ limit }) => Number.isSafeInteger(limit) && limit >= 1) &&
      /^[A-Za-z0-9\-_.:]{1,256}$/.test(limits.tenantKey ?? 'a') &&
      (limits.failureCode ?? 400) >= 400 &&
      (limits.failureCode ?? 599) <= 599;
    return holds ? 'limits' : 'nonsense';
  } catch (failure) {
    if (failure instanceof ServiceFailure) return 'failure';
    throw failure;
  }
}

const names = MESSAGES.flatMap(({ fields }) => fields).map(({ name }) => name);
const strange = fc.oneof(
  fc.jsonValue(),
  fc.integer(),
  fc.double(),
  fc.constantFrom(
    0,
    -0,
    1,
    2 ** 53,
    10 ** 15,
    '1s',
    '0s',
    '1d',
    '1000000d',
    'tokenBucket',
    'fixedWindow',
    'leakyBucket',
    'acme',
    null,
    true,
  ),
);

test('any text is limits or a failure', () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), fc.string(), fc.string({ unit: 'binary' })), (text) => {
      expect(outcomeOf(() => parseStrictJson(new TextEncoder().encode(text)))).not.toBe('nonsense');
    }),
    { numRuns: runs(1000) },
  );
});

test('any bytes are limits or a failure', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      expect(outcomeOf(() => parseStrictJson(bytes))).not.toBe('nonsense');
    }),
    { numRuns: runs(500) },
  );
});

test('any values in the fields of the contract are limits or a failure', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...names), strange, { maxKeys: 8 }), (answer) => {
      expect(outcomeOf(() => answer)).not.toBe('nonsense');
    }),
    { numRuns: runs(2000) },
  );
});

test('a right answer with one field replaced is limits or a failure', () => {
  const right = {
    average: 100,
    burst: 50,
    period: '1s',
    tenant_key: 'a',
    failure_code: 503,
    cost: 1,
    cache_max_age_seconds: 5,
  };
  fc.assert(
    fc.property(fc.constantFrom(...names), strange, (name, value) => {
      expect(outcomeOf(() => ({ ...right, [name]: value }))).not.toBe('nonsense');
    }),
    { numRuns: runs(2000) },
  );
});

test('any protobuf message that can be read is limits or a failure', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      let json: unknown;
      try {
        json = toJson(responseMessage, fromBinary(responseMessage, bytes), { useProtoFieldName: true });
      } catch {
        json = undefined;
      }
      expect(outcomeOf(() => fromProtoJson(json))).not.toBe('nonsense');
    }),
    { numRuns: runs(2000) },
  );
});

test('any headers give a time that is not negative and not longer than a day', () => {
  const part = fc.constantFrom(
    'max-age',
    's-maxage',
    '=',
    '"',
    ',',
    ';',
    '10',
    '-1',
    ' ',
    'no-store',
    'public',
    'stale-if-error',
    '\\',
    '\t',
    'é',
  );
  const line = fc.array(part, { maxLength: 12 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(
      fc.array(line, { maxLength: 3 }),
      fc.array(line, { maxLength: 2 }),
      (cacheControl, expires) => {
        const { freshMs, staleMs } = freshnessOf(
          { cacheControl, expires, date: undefined, age: undefined },
          { cacheMaxAgeSeconds: undefined, cacheNoStore: false },
          { defaults: { freshMs: 60_000, staleMs: 300_000 }, nowMs: 0 },
        );
        expect(freshMs >= 0 && freshMs <= MAX_FRESH_MS && staleMs >= 0 && staleMs <= 300_000).toBe(true);
        // A directive that stands alone is never overlooked.
        const withNoStore = parseCacheControl([...cacheControl, 'no-store']);
        expect(withNoStore.notStored).toBe(true);
      },
    ),
    { numRuns: runs(2000) },
  );
});

test('an absurdly long header takes no more work than its length', () => {
  const before = process.cpuUsage();

  parseCacheControl(['"'.repeat(100_001), '\\"'.repeat(50_000), `a="${'\\'.repeat(100_000)}`]);
  parseStrictJson(new TextEncoder().encode(`"${'\\\\'.repeat(30_000)}"`));

  // About 10 ms; looking at each character again for every other one would take a minute.
  expect(process.cpuUsage(before).user).toBeLessThan(5_000_000);
});

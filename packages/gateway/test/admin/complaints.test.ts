// Every refusal of the admin API names the value, what was expected and, where it can be known, what was meant.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { JSON_HEADERS, runAdmin, type Running } from './running-admin.ts';

let running: Running;

beforeAll(async () => {
  running = await runAdmin();
});

afterAll(async () => {
  await running.stop();
});

test.each([
  ['{"average": 0}', 'average in the body is 0; expected at least 1.'],
  ['{"burst": -1}', 'burst in the body is -1; expected at least 1.'],
  ['{"quota": 1.5}', 'quota in the body is 1.5; expected a whole number.'],
  ['{"average": 1e300}', 'average in the body is 1e+300; expected at most 9007199254740991.'],
  ['{"average": "100"}', 'average in the body is "100"; expected a whole number: write it without quotes.'],
  ['{"average": "many"}', 'average in the body is "many"; expected a whole number.'],
  ['{"average": null}', 'average in the body is null; expected a whole number.'],
  ['{"average": true}', 'average in the body is true; expected a whole number.'],
  ['{"period": 60}', 'period in the body is 60; expected a duration as a text, such as "30s".'],
  ['{"period": ""}', 'period in the body is ""; expected a duration as a text, such as "30s".'],
  ['{"window": {}}', 'window in the body is an object; expected a duration as a text, such as "30s".'],
  ['{"window": ["1s"]}', 'window in the body is a list; expected a duration as a text, such as "30s".'],
  [`{"period": "${'9'.repeat(70)}s"}`, 'period in the body has 71 characters; expected at most 64.'],
  ['{"periode": "1s"}', 'The body has periode, which is unknown. Did you mean period?'],
  ['{"maxDelay": "1s"}', 'The body has maxDelay, which is unknown. Did you mean max_delay?'],
  [
    '{"x\\n": 1}',
    'The body has "x\\n", which is unknown; expected some of average, burst, period, max_delay, quota, window, offset, every, time_zone, starts_on, limit, hold, expires_in, by, note.',
  ],
  ['{"burst": 5, "note": 7}', 'note in the body is 7; expected a text.'],
  ['{"burst": 5, "by": ""}', 'by in the body is ""; expected a text.'],
  [
    `{"burst": 5, "note": "${'x'.repeat(501)}"}`,
    'note in the body has 501 characters; expected at most 500.',
  ],
  [
    '{"burst": 5, "expires_in": "soon"}',
    `expires_in is "soon", which is not a duration: write it like '250ms', '1s', '1m', '1h30m' or '1d'.`,
  ],
  [
    '{"burst": 5, "expires_in": "1ms"}',
    `expires_in is "1ms", outside 1s to 3650d: write it like '250ms', '1s', '1m', '1h30m' or '1d'.`,
  ],
  ['{"note": "only a note"}', 'The body has no number; expected at least one, such as {"average": 100}.'],
  ['{}', 'The body has no number; expected at least one, such as {"average": 100}.'],
  ['[]', 'The body is a list; expected an object such as {"average": 100}.'],
  ['null', 'The body is null; expected an object such as {"average": 100}.'],
  ['"average"', 'The body is "average"; expected an object such as {"average": 100}.'],
  ['', 'The body is missing; expected an object such as {"average": 100}.'],
])('the override %s', async (body, detail) => {
  const { status, json } = await running.fetch('/v1/keys/api/ann/override', {
    method: 'PUT',
    headers: JSON_HEADERS,
    body,
  });

  expect([status, json]).toMatchObject([400, { code: 'INVALID_REQUEST', detail }]);
});

test.each([
  [
    '/v1/keys/api/ann?cost=abc',
    'cost in the query is "abc"; expected a whole number of at most 15 digits, such as cost=5.',
  ],
  [
    '/v1/keys/api/ann?cost=-1',
    'cost in the query is "-1"; expected a whole number of at most 15 digits, such as cost=5.',
  ],
  [
    '/v1/keys/api/ann?cost=',
    'cost in the query is ""; expected a whole number of at most 15 digits, such as cost=5.',
  ],
  ['/readyz?deep=yes', 'deep in the query is "yes"; expected one of 0, 1, true, false.'],
])('%s', async (path, detail) => {
  expect((await running.fetch(path)).json).toMatchObject({ status: 400, code: 'INVALID_REQUEST', detail });
});

test('a value cannot write to a terminal, nor be longer than a line', async () => {
  const { json } = await running.fetch(
    `/v1/keys/api/ann?cost=${encodeURIComponent(`\u001b[2J${'9'.repeat(500)}`)}`,
  );

  expect(json).toMatchObject({
    detail: `cost in the query is "\\u001b[2J${'9'.repeat(56)}..."; expected a whole number of at most 15 digits, such as cost=5.`,
  });
});

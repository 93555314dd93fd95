import { readFileSync } from 'node:fs';
import { fromBinary, fromJson, toBinary, toJson } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { parseAnswer } from '../../src/external/answer.ts';
import { FAILURE_POLICIES, MESSAGES } from '../../src/external/wire/definition.ts';
import {
  getLimits,
  requestMessage,
  responseMessage,
  fromProtoJson,
} from '../../src/external/wire/descriptors.ts';

/** As the reference published them: nobody may change these. */
const PUBLISHED = {
  GetLimitsRequest: { key: 1, headers: 2, method: 3, path: 4 },
  GetLimitsResponse: {
    average: 1,
    burst: 2,
    period: 3,
    cache_max_age_seconds: 4,
    cache_no_store: 5,
    tenant_key: 6,
    failure_policy: 7,
    failure_code: 8,
    backend_url: 9,
  },
};

test.each(Object.entries(PUBLISHED))('%s has the published field numbers', (name, numbers) => {
  const fields = MESSAGES.find((message) => message.name === name)?.fields ?? [];

  expect(Object.fromEntries(fields.map((field) => [field.name, field.number]))).toMatchObject(numbers);
  expect(new Set(fields.map(({ number }) => number)).size).toBe(fields.length);
});

test('the method, the messages and the constants have the published names', () => {
  expect(`${getLimits.parent.typeName}/${getLimits.name}`).toBe(
    'edgequota.ratelimit.v1.RateLimitService/GetLimits',
  );
  expect(requestMessage.typeName).toBe('edgequota.ratelimit.v1.GetLimitsRequest');
  expect(FAILURE_POLICIES.map(({ name, number }) => [name.replace('FAILURE_POLICY_', ''), number])).toEqual([
    ['UNSPECIFIED', 0],
    ['PASSTHROUGH', 1],
    ['FAIL_CLOSED', 2],
    ['IN_MEMORY_FALLBACK', 3],
  ]);
});

test('a question survives the wire, byte for byte as protobuf has it', () => {
  const bytes = toBinary(
    requestMessage,
    fromJson(requestMessage, { key: 'k', headers: { a: 'b' }, method: 'GET', path: '/' }),
  );

  expect([...bytes]).toEqual([
    0x0a, 1, 0x6b, 0x12, 6, 0x0a, 1, 0x61, 0x12, 1, 0x62, 0x1a, 3, 0x47, 0x45, 0x54, 0x22, 1, 0x2f,
  ]);
  expect(toJson(requestMessage, fromBinary(requestMessage, bytes))).toEqual({
    key: 'k',
    headers: { a: 'b' },
    method: 'GET',
    path: '/',
  });
});

test.each<readonly [string, unknown, unknown]>([
  [
    'texts of 64-bit numbers',
    { average: '100', burst: '50', period: '1s' },
    { average: 100, burst: 50, period: '1s' },
  ],
  [
    'names in camel case',
    { average: 1, period: '1s', tenantKey: 'a', cacheMaxAgeSeconds: '9' },
    { average: 1, period: '1s', tenant_key: 'a', cache_max_age_seconds: 9 },
  ],
  [
    'what is empty',
    {
      average: 1,
      burst: 0,
      period: '1s',
      tenant_key: '',
      failure_code: 0,
      failure_policy: 'FAILURE_POLICY_UNSPECIFIED',
      policies: [],
    },
    { average: 1, period: '1s' },
  ],
  ['a zero that is left out', { period: '1s' }, { period: '1s', average: 0 }],
  ['nothing at all', {}, {}],
  [
    'policies',
    { policies: [{ name: 'q', algorithm: 'leakyBucket', average: '5', period: '1s', maxDelay: '1s' }] },
    { policies: [{ name: 'q', algorithm: 'leakyBucket', average: 5, period: '1s', max_delay: '1s' }] },
  ],
  [
    'a quota',
    { algorithm: 'fixedWindow', quota: '5', window: '1m', period: '1s' },
    { algorithm: 'fixedWindow', quota: 5, window: '1m', period: '1s' },
  ],
  ['a text that is no number', { average: 'many' }, { average: 'many' }],
  ['no object', 7, 7],
])('%s from protobuf reads as HTTP would say it', (_, given, expected) => {
  expect(fromProtoJson(given)).toEqual(expected);
});

test('every field of the answer survives protobuf', () => {
  const wire = {
    policies: [
      { name: 'rate', algorithm: 'tokenBucket', average: 5, burst: 7, period: '1s' },
      { name: 'q', algorithm: 'leakyBucket', average: 5, period: '1s', max_delay: '2s' },
      { name: 'w', algorithm: 'fixedWindow', quota: 9, window: '1m' },
    ],
    tenant_key: 'acme',
    failure_policy: 'FAILURE_POLICY_FAIL_CLOSED',
    failure_code: 503,
    backend_url: 'http://b:1',
    cache_max_age_seconds: 60,
    cache_no_store: true,
    cost: 0,
    request_timeout: '5s',
  };

  const message = fromBinary(responseMessage, toBinary(responseMessage, fromJson(responseMessage, wire)));
  const read = fromProtoJson(toJson(responseMessage, message, { useProtoFieldName: true }));

  expect(read).toEqual(wire);
  expect(parseAnswer(read)).toEqual(parseAnswer(wire));
});

test('the published files name every field', () => {
  const proto = readFileSync(new URL('../../api/ratelimit.proto', import.meta.url), 'utf8');
  const openApi: unknown = JSON.parse(
    readFileSync(new URL('../../api/limits-service.openapi.json', import.meta.url), 'utf8'),
  );

  for (const { name, fields } of MESSAGES) {
    for (const field of fields) {
      expect(proto).toContain(` ${field.name} = ${field.number};`);
      expect(openApi).toHaveProperty(['components', 'schemas', name, 'properties', field.name]);
    }
  }
});

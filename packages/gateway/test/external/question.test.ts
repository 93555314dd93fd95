import { expect, test } from 'vitest';
import { QuestionReader } from '../../src/external/question.ts';
import { configOf } from './sources.ts';
import { question } from './sources.ts';

const RAW = [
  'Host',
  'a',
  'X-Tenant-Id',
  't1',
  'authorization',
  'Bearer s',
  'COOKIE',
  'c=1',
  'X-Api-Key',
  'k',
  'traceparent',
  '00-1',
];

function reader(
  headerFilter: object,
  fields: readonly string[] = ['headers', 'method', 'path'],
): QuestionReader {
  const { external } = configOf({
    rate_limit: { external: { header_filter: headerFilter, request_fields: fields } },
  }).rate_limit;
  return new QuestionReader(external.header_filter, external.request_fields);
}

test('without a filter no header leaves', () => {
  expect(reader({}).requestOf(question('a', { headers: { raw: RAW } })).headers).toEqual({});
});

test.each([
  ['an allow list', { allow_list: ['X-TENANT-ID', 'host'] }],
  ['a deny list', { deny_list: [] }],
])('%s sends names in one spelling, whoever wrote them how', (_, filter) => {
  const shouted = RAW.map((part, at) => (at % 2 === 0 ? part.toUpperCase() : part));
  const whispered = RAW.map((part, at) => (at % 2 === 0 ? part.toLowerCase() : part));

  for (const raw of [RAW, shouted, whispered]) {
    const { headers } = reader(filter).requestOf(question('a', { headers: { raw } }));
    expect(headers).toEqual({ Host: 'a', 'X-Tenant-Id': 't1' });
  }
});

test.each([[[]], [['X-Other']]])('a deny list %j never lets out what carries credentials', (deny) => {
  const { headers } = reader({ deny_list: deny }).requestOf(question('a', { headers: { raw: RAW } }));

  expect(headers).toEqual({ Host: 'a', 'X-Tenant-Id': 't1' });
});

test('a deny list keeps back what it names, however it is written', () => {
  const { headers } = reader({ deny_list: ['x-tenant-ID'] }).requestOf(
    question('a', { headers: { raw: RAW } }),
  );

  expect(headers).toEqual({ Host: 'a' });
});

test('an allow list is stronger than a deny list', () => {
  const { headers } = reader({ allow_list: ['Host'], deny_list: ['Host'] }).requestOf(
    question('a', { headers: { raw: RAW } }),
  );

  expect(headers).toEqual({ Host: 'a' });
});

test('what is not sent makes no difference, and what is sent does', () => {
  const keyOnly = reader({ allow_list: ['X-A'] }, []);
  const all = reader({ allow_list: ['X-A'] });
  const one = question('k', { path: '/1', headers: { raw: ['X-A', '1'] } });
  const variants = [
    question('k', { path: '/2', headers: one.headers }),
    question('k', { path: '/1', headers: { raw: ['X-A', '2'] } }),
    question('k', { path: '/1', headers: { raw: [] } }),
    question('k', { path: '/1', method: 'PUT', headers: one.headers }),
  ];

  for (const other of variants) {
    expect(keyOnly.identityOf(other)).toBe(keyOnly.identityOf(one));
    expect(all.identityOf(other)).not.toBe(all.identityOf(one));
  }
  expect(keyOnly.requestOf(one)).toEqual({ key: 'k', headers: {}, method: '', path: '' });
  expect(keyOnly.identityOf(question('l'))).not.toBe(keyOnly.identityOf(one));
});

test('the order and the spelling of headers make no other question', () => {
  const all = reader({ allow_list: ['X-A', 'X-B'] });
  const one = all.identityOf(question('k', { headers: { raw: ['X-A', '1', 'X-B', '2'] } }));

  expect(all.identityOf(question('k', { headers: { raw: ['x-b', '2', 'x-a', '1'] } }))).toBe(one);
  expect(all.identityOf(question('k', { headers: { raw: ['x-b', '1', 'x-a', '2'] } }))).not.toBe(one);
});

test('long questions are kept as a hash, and stay apart', () => {
  const all = reader({});
  const long = (tail: string) => all.identityOf(question('k', { path: `/${'x'.repeat(100_000)}${tail}` }));

  expect(long('1')).toHaveLength(65);
  expect(long('1')).not.toBe(long('2'));
});

test('clients cannot make it remember more names of headers than a thousand', () => {
  const all = reader({ deny_list: ['x'] });
  for (let at = 0; at < 5000; at += 1) all.identityOf(question('k', { headers: { raw: [`X-${at}`, '1'] } }));

  expect(all.requestOf(question('k', { headers: { raw: ['X-Late', '1', 'Cookie', 'c'] } })).headers).toEqual({
    'X-Late': '1',
  });
});

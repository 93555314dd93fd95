import { expect, test } from 'vitest';
import { http2Headers } from '../../src/http-client/http2/call.ts';

test('a header that every object has by another meaning goes out as it was sent', () => {
  const headers = ['host', 'a.test', 'constructor', 'x', 'X-Twice', '1', 'x-twice', '2'];

  expect(http2Headers('http://b.test', { method: 'GET', path: '/', headers })).toEqual({
    constructor: 'x',
    'x-twice': ['1', '2'],
    ':method': 'GET',
    ':path': '/',
    ':scheme': 'http',
    ':authority': 'a.test',
  });
});

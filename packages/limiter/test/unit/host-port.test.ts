import { expect, test } from 'vitest';
import { joinHostPort, splitHostPort } from '../../src/host-port.ts';

test.each([
  ['10.0.0.1:6379', { host: '10.0.0.1', port: 6379 }],
  ['redis.example.com:6379', { host: 'redis.example.com', port: 6379 }],
  ['[::1]:8080', { host: '::1', port: 8080 }],
  ['::1:8080', { host: '::1', port: 8080 }],
  [':8080', { host: '', port: 8080 }],
])('%s', (text, expected) => {
  expect(splitHostPort(text)).toEqual(expected);
});

test.each(['', 'localhost', 'localhost:', 'localhost:http'])('%j has no port', (text) => {
  expect(splitHostPort(text).port).toBeNaN();
});

test('an IPv6 address is written in brackets', () => {
  expect(joinHostPort({ host: '::1', port: 80 })).toBe('[::1]:80');
  expect(joinHostPort({ host: 'localhost', port: 80 })).toBe('localhost:80');
});

import { expect, test } from 'vitest';

import { parseBenchmarkCsv, withRandomKeys } from './redis-benchmark.ts';

const HEADER =
  '"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"';

test('calls per second and latencies are read from the last line', () => {
  const csv = `${HEADER}\n"EVALSHA abc 1 k","62500.50","0.227","0.056","0.215","0.351","2.000","2.119"\n`;

  const { callsPerSecond, latencyUs } = parseBenchmarkCsv(csv);

  expect(callsPerSecond).toBe(62_500.5);
  expect(latencyUs).toEqual({ p50: 215, p95: 351, p99: 2000 });
});

test('quotes and commas in the command change nothing', () => {
  const csv = `${HEADER}\n"EVAL return {"a","b"} 0","100.00","1","2","3","4","5","6"\n`;

  expect(parseBenchmarkCsv(csv)).toEqual({
    callsPerSecond: 100,
    latencyUs: { p50: 3000, p95: 4000, p99: 5000 },
  });
});

test.each(['', HEADER, `${HEADER}\n"PING","12.5"`, `${HEADER}\nWARNING: Could not fetch server CONFIG`])(
  'a run without a result is an error: %j',
  (csv) => {
    expect(() => parseBenchmarkCsv(csv)).toThrow('redis-benchmark answered');
  },
);

test('keys become random where the hash stands, and nothing else does', () => {
  const args = ['EVALSHA', 'sha', '2', 'p:1{hash-a}tb', 'p:1{hash-b}tb', '', 'check 1 {x}'];

  expect(withRandomKeys(args)).toEqual([
    'EVALSHA',
    'sha',
    '2',
    'p:1{__rand_int__}tb',
    'p:1{__rand_int__}tb',
    '',
    'check 1 {x}',
  ]);
});

test('a key without a place for it is an error: every call would ask for the same one', () => {
  expect(() => withRandomKeys(['EVALSHA', 'sha', '1', 'plain', ''])).toThrow("'plain'");
});

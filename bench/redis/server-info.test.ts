import { expect, test } from 'vitest';

import { numberField, scriptCalls } from './server-info.ts';

const INFO =
  '# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:20.25\r\nused_cpu_user_main_thread:19.75\r\nempty:\r\n';

test('a field is found by its whole name', () => {
  expect(numberField(INFO, 'used_cpu_user')).toBe(20.25);
  expect(numberField(INFO, 'used_cpu_user_main_thread')).toBe(19.75);
});

test.each(['used_cpu', 'cpu_sys', 'empty', '# CPU'])('%s is no number of the answer', (name) => {
  expect(() => numberField(INFO, name)).toThrow(name);
});

test('script calls are those of clients: what a script calls itself is none', () => {
  const info = [
    '# Commandstats',
    'cmdstat_get:calls=500,usec=1,usec_per_call=0.1,rejected_calls=0,failed_calls=0',
    'cmdstat_eval:calls=2,usec=90,usec_per_call=45.00,rejected_calls=0,failed_calls=0',
    'cmdstat_evalsha:calls=40,usec=900,usec_per_call=22.50,rejected_calls=0,failed_calls=1',
    'cmdstat_evalsha_ro:calls=7,usec=9,usec_per_call=1.28,rejected_calls=0,failed_calls=0',
    '',
  ].join('\r\n');

  expect(scriptCalls(info)).toBe(42);
  expect(scriptCalls(INFO)).toBe(0);
});

import { expect, test } from 'vitest';

import { numberField } from './server-info.ts';

const INFO =
  '# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:20.25\r\nused_cpu_user_main_thread:19.75\r\nempty:\r\n';

test('a field is found by its whole name', () => {
  expect(numberField(INFO, 'used_cpu_user')).toBe(20.25);
  expect(numberField(INFO, 'used_cpu_user_main_thread')).toBe(19.75);
});

test.each(['used_cpu', 'cpu_sys', 'empty', '# CPU'])('%s is no number of the answer', (name) => {
  expect(() => numberField(INFO, name)).toThrow(name);
});

import { expect, test } from 'vitest';
import { encodeCommand, parseReply, type Reply, ReplyError } from './resp.ts';

const REPLIES: readonly (readonly [wire: string, reply: Reply])[] = [
  ['+OK\r\n', 'OK'],
  [':-42\r\n', -42],
  ['$5\r\nh\r\nlo\r\n', 'h\r\nlo'],
  ['$3\r\n\u20ac\r\n', '\u20ac'],
  ['$0\r\n\r\n', ''],
  ['$-1\r\n', null],
  ['*-1\r\n', null],
  ['*0\r\n', []],
  ['*3\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n-ERR no\r\n', [1, ['a', null], new ReplyError('ERR no')]],
  ['-MOVED 5 127.0.0.1:1\r\n', new ReplyError('MOVED 5 127.0.0.1:1')],
];

test.each(REPLIES)('%j is read as %j, from its last byte on', (wire, reply) => {
  const bytes = Buffer.from(wire);

  const complete = parseReply(Buffer.concat([bytes, Buffer.from('+next')]));
  const cut = Array.from(bytes, (_, length) => parseReply(bytes.subarray(0, length)));

  expect(complete).toEqual({ reply, end: bytes.length });
  expect(new Set(cut)).toEqual(new Set([undefined]));
});

test('a command is an array of byte strings', () => {
  const bytes = encodeCommand(['SET', '\u20ac', 7, Uint8Array.of(0, 255)]);

  expect(bytes.toString('latin1')).toBe(
    '*4\r\n$3\r\nSET\r\n$3\r\n\u00e2\u0082\u00ac\r\n$1\r\n7\r\n$2\r\n\u0000\u00ff\r\n',
  );
});

test('what is not RESP2 is an error', () => {
  expect(() => parseReply(Buffer.from('HTTP/1.1 400\r\n'))).toThrow('Not a RESP2 reply: HTTP/1.1 400');
});

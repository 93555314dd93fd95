import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { ClientMessage } from '../../../src/proxy/server/http1-exchange.ts';

function messageWith(rawHeaders: string[]): ClientMessage {
  const message = new ClientMessage(new Socket());
  message.rawHeaders = rawHeaders;
  return message;
}

test('headers that are looked up by name are found in any spelling, several lines as one list', () => {
  const lines =
    'TE trailers Expect 100-continue uPgRaDe h2c Upgrade websocket Content-Length 5 transfer-encoding chunked';
  const { headers } = messageWith(lines.split(' '));

  expect(headers).toEqual({
    te: 'trailers',
    expect: '100-continue',
    upgrade: 'h2c, websocket',
    'content-length': '5',
    'transfer-encoding': 'chunked',
  });
});

test('nothing is made of the others', () => {
  const { headers } = messageWith(['Host', 'a', 'Accept', '*/*', 'Cookie', 'a=b', '__proto__', 'x']);

  expect(headers).toEqual({});
});

test('a request asks for another protocol only if that is a WebSocket', () => {
  const offered = (upgrade: string): boolean => {
    const message = messageWith(['Connection', 'Upgrade', 'Upgrade', upgrade]);
    message.upgrade = true;
    return message.upgrade;
  };

  expect(offered('WebSocket')).toBe(true);
  expect(offered('h2c')).toBe(false);
});

// Responses of a model that are not what they say they are.
import { gzipSync } from 'node:zlib';
import { createLimiter } from 'spillgate';
import { expect, test } from 'vitest';
import { gateOf } from '../rules/facts.ts';
import { eventually, exchange, startOrigin, startRig } from './rig.ts';

const WHOLE = gzipSync(JSON.stringify({ usage: { prompt_tokens: 5, completion_tokens: 6 } }));

test.each([
  ['is not compressed', Buffer.from('{"usage":{}}')],
  ['breaks in the middle', Buffer.concat([WHOLE.subarray(0, 12), Buffer.alloc(64, 255)])],
  ['goes on behind its end', Buffer.concat([WHOLE, Buffer.from('rubbish')])],
  ['is a bomb', gzipSync(Buffer.alloc(64 * 2 ** 20))],
])('a request whose response %s comes to its end', async (_, sent) => {
  let end: () => void = () => undefined;
  const origin = await startOrigin((_request, response) => {
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' });
    response.write(sent);
    end = () => void response.end();
  });
  const { gate } = gateOf(
    `
  policies: { tokens: { algorithm: fixedWindow, quota: 100000, window: 1h } }
  rules: [{ name: all, policies: [tokens], cost: 10, settle: { type: llmTokens } }]
`,
    { limiter: createLimiter() },
  );
  const rig = await startRig({ origin, rule: (facts, waiter) => gate.decide(facts, waiter) });

  const client = await exchange(rig.port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await client.until(({ text }) => text.length > sent.length);
  end();
  await eventually(() => rig.finished.length === 1);

  expect(client.statuses).toEqual([200]);
  expect(rig.finished[0]).toMatchObject({ outcome: 'forwarded' });
});

// A target that is too long is told apart from headers that are, however it arrives.
import { expect, test } from 'vitest';
import { RawClient, startOrigin, startRig } from './rig.ts';
import { letArrive } from './local-server.ts';

const a = (count: number): string => 'a'.repeat(count);
const REST = ' HTTP/1.1\r\nHost: a\r\n\r\n';
const POST = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello';
const GET = 'GET / HTTP/1.1\r\nHost: a\r\n';

test.each([
  ['a target in one packet', [`GET /${a(40_000)}${REST}`], 414],
  ['an absolute one', [`GET http://a/${a(40_000)}${REST}`], 414],
  ['one that ends in a colon', [`GET /${a(40_000)}:${REST}`], 414],
  ['one without a version', [`GET /${a(40_000)}\r\n\r\n`], 414],
  ['one without an end', [`GET /${a(40_000)}`], 414],
  ['one in two packets', [`GET /${a(20_000)}`, `${a(20_000)}${REST}`], 414],
  ['one in three packets', [`GET /${a(10_000)}`, a(10_000), a(10_000)], 414],
  ['headers in one packet', [`${GET}X: ${a(40_000)}\r\n\r\n`], 431],
  ['headers without an end', [`${GET}X: ${a(40_000)}`], 431],
  ['headers with spaces', [`${GET}X: ${a(20_000)} ${a(20_000)}`], 431],
  ['headers in two packets', [`${GET}X: ${a(20_000)}`, `${a(20_000)}\r\n\r\n`], 431],
  ['headers in three packets', [`${GET}X: ${a(10_000)}`, a(10_000), a(10_000)], 431],
  [
    'spaces in three packets',
    [`GET /${a(8000)}`, `${REST.slice(0, -2)}X: ${a(10_000)}`, `a ${a(10_000)}`],
    431,
  ],
  ['the name of a header', [`${GET}${a(40_000)}: b\r\n\r\n`], 431],
] as const)('%s gets its status', async (_name, packets, status) => {
  const client = await sent(packets);

  expect(client.statuses).toEqual([status]);
});

test.each([
  ['behind a request in the same packet', [`${GET}\r\nGET /${a(40_000)}${REST}`]],
  ['behind a body in the same packet', [`${POST}GET /${a(40_000)}${REST}`]],
  ['without an end', [`${GET}\r\nGET /${a(40_000)}`]],
])('a target that is too long %s gets 414', async (_name, packets) => {
  const client = await sent(packets, 2);

  expect(client.statuses).toEqual([200, 414]);
});

/** Each packet on its own: the next one goes when the gateway has read the one before. */
async function sent(packets: readonly string[], answers = 1): Promise<RawClient> {
  const { port } = await startRig({ origin: await startOrigin() });
  const client = await RawClient.connect(port);
  client.socket.setNoDelay(true);
  for (const packet of packets) {
    client.send(packet);
    await letArrive();
  }
  return client.until(({ closed, statuses }) => closed || statuses.length >= answers);
}

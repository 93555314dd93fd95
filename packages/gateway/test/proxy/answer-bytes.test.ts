// The bytes of an answer are what its headers say, and UTF-8, whichever way it is written and whatever letters it has.
import { expect, test, vi } from 'vitest';
import {
  GATEWAY_ERRORS,
  errorAnswer,
  rawResponse,
  type GatewayErrorCode,
} from '../../src/proxy/gateway-errors.ts';
import { createTunnels } from '../../src/proxy/websocket/websocket-tunnels.ts';
import { keptLog } from './gateway-settings.ts';
import { ask, session } from './http2-client.ts';
import { RawClient, REFUSED, startOrigin, startRig, type RigOptions } from './rig.ts';

const LETTERS = '100 %, §, größer, 数, 😀';
const CODES = Object.keys(GATEWAY_ERRORS) as GatewayErrorCode[];

test.each(CODES)('%s is JSON of the announced length', (code) => {
  const problem = problemIn(rawResponse(errorAnswer(code, 'the-id')).toString('latin1'));

  expect(problem).toMatchObject({ code, detail: GATEWAY_ERRORS[code].detail, requestId: 'the-id' });
});

const UPGRADE = 'Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

test.each([
  ['a request that is read', 'INVALID_TARGET', 'GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['bytes that are no request', 'MALFORMED_REQUEST', 'GET / HTTP/1.1\r\nno header\r\n\r\n'],
  ['headers that are too large', 'HEADERS_TOO_LARGE', `GET / HTTP/1.1\r\nA: ${'a'.repeat(50_000)}\r\n\r\n`],
  ['CONNECT', 'METHOD_NOT_ALLOWED', 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['an upgrade that is not read', 'INVALID_TARGET', `GET /%zz HTTP/1.1\r\n${UPGRADE}`],
  ['a handshake that is none', 'INVALID_HANDSHAKE', `GET / HTTP/1.1\r\n${UPGRADE}`],
] as const)('%s gets %s in letters of any kind', async (_way, code, bytes) => {
  vi.spyOn(GATEWAY_ERRORS[code], 'detail', 'get').mockReturnValue(LETTERS as never);

  const text = await answerTo(bytes);

  expect(problemIn(text)).toMatchObject({ code, detail: LETTERS });
});

const REFUSED_IN_LETTERS = { ...REFUSED, problem: { ...REFUSED.problem, detail: LETTERS } };
const TOLD_IN_LETTERS = { ...REFUSED_IN_LETTERS.problem, requestId: expect.any(String) as string };

test.each([
  ['a request', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['an upgrade', `GET / HTTP/1.1\r\n${UPGRADE}`],
])('%s that is refused hears so in letters of any kind', async (_way, bytes) => {
  const text = await answerTo(bytes, { rule: () => REFUSED_IN_LETTERS });

  expect(problemIn(text)).toEqual(TOLD_IN_LETTERS);
});

test('HTTP/2 and gRPC carry letters of any kind, too', async () => {
  const { url } = await startRig({ origin: await startOrigin(), rule: () => REFUSED_IN_LETTERS });
  const client = session(url);

  const plain = await ask(client, { ':path': '/' });
  const grpc = await ask(client, { ':path': '/', ':method': 'POST', 'content-type': 'application/grpc' }, '');

  expect(JSON.parse(plain.body)).toEqual(TOLD_IN_LETTERS);
  expect(Number(plain.headers['content-length'])).toBe(Buffer.byteLength(plain.body));
  expect(decodeURIComponent(String(grpc.headers['grpc-message']))).toBe(LETTERS);
});

/** Every byte as a letter of Latin-1. */
async function answerTo(bytes: string, options: Partial<RigOptions> = {}): Promise<string> {
  const tunnels = createTunnels({
    log: keptLog(),
    traffic: { tunnelOpened: () => undefined, tunnelClosed: () => undefined },
  });
  const { port } = await startRig({ origin: await startOrigin(), tunnels, ...options });
  const client = await RawClient.connect(port);
  client.send(bytes);
  await client.until(({ closed, text }) => closed || text.endsWith('}'));
  return client.text;
}

/** Not more bytes and not fewer than `Content-Length` says, and JSON in UTF-8. */
function problemIn(latin1: string): unknown {
  const end = latin1.indexOf('\r\n\r\n') + 4;
  const body = Buffer.from(latin1.slice(end), 'latin1');
  expect(latin1.slice(0, end)).toContain(`\r\nContent-Length: ${body.length}\r\n`);
  return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
}

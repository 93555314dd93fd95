// Costs that are known only afterwards, over real sockets: what was charged is what was used.
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { fixedWindow } from 'spillgate';
import { expect, onTestFinished, test } from 'vitest';
import { startProvider, type FakeProvider } from '../../../../examples/llm/fake-provider.ts';
import { anthropicStream, openAiStream } from '../cost/provider-responses.ts';
import { chargedRig, LLM, post, question, requests, type ChargedRig } from './charged-rig.ts';
import { ask, session } from './http2-client.ts';
import { eventually, exchange, RawClient, startOrigin, type Respond } from './rig.ts';

async function provider(): Promise<FakeProvider> {
  const started = await startProvider();
  onTestFinished(() => started.close());
  return started;
}

test.each([
  ['/v1/chat/completions', false],
  ['/v1/chat/completions', true],
  ['/v1/messages', false],
  ['/v1/messages', true],
  ['/v1/responses', false],
  ['/v1/responses', true],
] as const)('%s with stream: %s is charged to the token', async (path, stream) => {
  const model = await provider();
  const rig = await chargedRig(LLM, model);

  await exchange(rig.port, post(path, question(40, stream)));
  await eventually(() => rig.finished.length === 1);

  const used = model.used.get('small') ?? 0;
  expect(used).toBeGreaterThan(40);
  expect(rig.finished[0]?.cost).toEqual({ cost: used, estimated: false });
  await expect.poll(async () => rig.charged()).toBe(used);
  expect(await rig.charged('all', requests)).toBe(1);
});

const respondWith =
  (type: string, body: string | Buffer, headers: Readonly<Record<string, string>> = {}): Respond =>
  (_: IncomingMessage, response: ServerResponse) => {
    response.writeHead(200, { 'Content-Type': type, ...headers });
    response.end(body);
  };

test('the bytes of a stream are the same with the tap beside it, compressed or not', async () => {
  const body = anthropicStream(['Hello', ' world'], { input: 50, output: 9 });
  const origin = await startOrigin((request, response) => {
    const compressed = request.headers['accept-encoding'] === 'gzip';
    const sent = compressed ? gzipSync(body) : Buffer.from(body);
    respondWith(
      'text/event-stream',
      sent,
      compressed ? { 'Content-Encoding': 'gzip' } : {},
    )(request, response);
  });
  const rig = await chargedRig(LLM, origin);

  const plain = await ask(session(rig.url), { ':path': '/', ':method': 'GET' });
  const packed = await exchange(rig.port, 'GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br, gzip\r\n\r\n');
  await eventually(() => rig.finished.length === 2);

  expect(plain.body).toBe(body);
  // Brotli is not offered: its window alone may be megabytes.
  expect(packed.text).toContain('Content-Encoding: gzip');
  expect(rig.finished.map(({ cost }) => cost)).toEqual([
    { cost: 59, estimated: false },
    { cost: 59, estimated: false },
  ]);
});

test.each(['br', 'zstd', 'gzip, br', 'exi'])(
  'a response in an encoding that is not read (%s) passes as it is, and its estimate stands, marked as one',
  async (encoding) => {
    const body = anthropicStream(['Hello'], { input: 50, output: 9 });
    const sent = encoding === 'br' ? brotliCompressSync(body) : Buffer.from(body);
    const origin = await startOrigin(
      respondWith('text/event-stream', sent, {
        'Content-Encoding': encoding,
        'Content-Length': `${sent.length}`,
      }),
    );
    const rig = await chargedRig('policies: [tokens], cost: 500, settle: { type: llmTokens }', origin);

    const client = await RawClient.connect(rig.port);
    client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await client.until(({ text }) => text.endsWith(sent.toString('latin1')));
    await eventually(() => rig.finished.length === 1);

    expect(rig.finished[0]?.cost).toEqual({ cost: 500, estimated: true });
    expect(await rig.charged()).toBe(500);
  },
);

test('a response whose packing is broken passes as it is, and is settled by an estimate', async () => {
  const body = gzipSync(anthropicStream(['Hello'], { input: 50, output: 9 }));
  const sent = Buffer.concat([body.subarray(0, 20), Buffer.alloc(100, 0xff)]);
  const origin = await startOrigin(respondWith('text/event-stream', sent, { 'Content-Encoding': 'gzip' }));
  const rig = await chargedRig('policies: [tokens], cost: 500, settle: { type: llmTokens }', origin);

  await exchange(rig.port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await eventually(() => rig.finished.length === 1);

  expect(rig.finished[0]?.cost?.estimated).toBe(true);
  await expect.poll(async () => rig.charged()).toBe(rig.finished[0]?.cost?.cost);
  expect(await rig.charged()).toBeLessThan(500);
});

test('a client that leaves in the middle is charged for what was asked and what was sent', async () => {
  const words = Array.from({ length: 10 }, () => 'four');
  const half = openAiStream(words, { input: 1, output: 1 }).split(
    'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[]',
  )[0];
  const origin = await startOrigin((_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write(half);
  });
  const rig = await chargedRig(LLM, origin);
  const body = question(1000, true);

  const client = await RawClient.connect(rig.port);
  client.send(post('/', body));
  await client.until(({ text }) => text.split('four').length > words.length);
  client.socket.resetAndDestroy();
  await eventually(() => rig.finished.length === 1);

  const cost = Math.ceil(body.length / 4) + words.length;
  expect(rig.finished[0]).toMatchObject({ outcome: 'aborted', cost: { cost, estimated: true } });
  await expect.poll(async () => rig.charged()).toBe(cost);
});

test('a client that leaves before the answer is charged for what was asked', async () => {
  const origin = await startOrigin(() => undefined);
  const rig = await chargedRig(LLM, origin);
  const body = question(1000, true);

  const client = await RawClient.connect(rig.port);
  client.send(post('/', body));
  await eventually(() => origin.requests.length === 1);
  client.socket.resetAndDestroy();

  await expect.poll(async () => rig.charged()).toBe(Math.ceil(body.length / 4));
});

test('an error of the provider costs no tokens, and a backend that is down none either', async () => {
  const origin = await startOrigin((_, response) => {
    response.writeHead(429, { 'Content-Type': 'application/json' });
    response.end('{"error":{"message":"later"}}');
  });
  const refusing = await chargedRig(LLM, origin);
  // Nobody listens on port 1.
  const down = await chargedRig(LLM, { url: 'http://127.0.0.1:1' });

  for (const rig of [refusing, down]) {
    await exchange(rig.port, post('/', question(10, false)));
    await eventually(() => rig.finished.length === 1);
    expect(rig.finished[0]?.cost).toEqual({ cost: 0, estimated: false });
    await expect.poll(async () => rig.charged()).toBe(0);
    expect(await rig.charged('all', requests)).toBe(1);
  }
});

test('what was reserved and is under way counts in full', async () => {
  const origin = await startOrigin(() => undefined);
  const rig = await chargedRig('policies: [tokens], cost: 500, settle: { type: llmTokens }', origin);

  const client = await RawClient.connect(rig.port);
  client.send(post('/', question(1000, true)));
  await eventually(() => origin.requests.length === 1);

  expect(await rig.charged()).toBe(500);
});

test('without room for one of the policies nothing is charged to any', async () => {
  const model = await provider();
  const rig = await chargedRig(LLM, model, 1000);

  const refused = await exchange(rig.port, post('/v1/messages', question(2000, false)));

  expect(refused.statuses).toEqual([429]);
  expect(await rig.charged('all', requests)).toBe(0);
  expect(model.used.size).toBe(0);
});

test('a header of the response says what the request has cost, up to a bound', async () => {
  const costs = ['7', '1000000', 'much'];
  const origin = await startOrigin((_, response) => {
    response.writeHead(200, { 'X-Cost': costs.shift() ?? '' });
    response.end('ok');
  });
  const rig = await chargedRig(
    'policies: [tokens], cost: 10, settle: { type: header, header_name: X-Cost, max: 500 }',
    origin,
  );

  for (let at = 0; at < 3; at += 1) await exchange(rig.port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await eventually(() => rig.finished.length === 3);

  expect(rig.finished.map(({ cost }) => cost)).toEqual([
    { cost: 7, estimated: false },
    { cost: 500, estimated: false },
    { cost: 10, estimated: true },
  ]);
  await expect.poll(async () => rig.charged()).toBe(517);
});

test('bytes of responses and of requests are charged as they passed', async () => {
  const origin = await startOrigin((request, response) => {
    request.on('data', () => undefined).on('end', () => response.end('x'.repeat(3000)));
  });
  const sent = await chargedRig('policies: [tokens], cost: 100, settle: { type: responseBytes }', origin);
  const received = await chargedRig('policies: [tokens], cost: { type: requestBytes }', origin);
  const chunked = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n';

  await exchange(sent.port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await exchange(received.port, post('/', 'x'.repeat(2000)));
  await expect.poll(async () => received.charged()).toBe(2000);
  await exchange(received.port, chunked);

  await expect.poll(async () => sent.charged()).toBe(3000);
  await expect.poll(async () => received.charged()).toBe(2005);
});

test.each([
  ['', 200, 4],
  ['X-Cost: 30\r\n', 200, 30],
  ['X-Cost: 0\r\n', 400, 0],
  ['X-Cost: 51\r\n', 400, 0],
  ['X-Cost: -1\r\n', 400, 0],
  ['X-Cost: 1.5\r\n', 400, 0],
  ['X-Cost: 1e1\r\n', 400, 0],
  ['X-Cost: 5\r\nX-Cost: 5\r\n', 400, 0],
])('the cost header %j is answered with %i', async (header, status, cost) => {
  const rig = await chargedRig(
    'policies: [tokens], cost: { type: header, header_name: X-Cost, default: 4, max: 50 }',
    await startOrigin(),
  );

  const client = await exchange(rig.port, `GET / HTTP/1.1\r\nHost: a\r\n${header}\r\n`);

  expect(client.statuses).toEqual([status]);
  expect(await rig.charged()).toBe(cost);
});

const CUT = 'policies: [tokens], cost: 100, settle: { type: llmTokens, cut_off: true }';

test.each([
  ['/v1/chat/completions', 'data: {"error":{'],
  ['/v1/messages', 'event: error\ndata: {"type":"error","error":{"type":"rate_limit_error"'],
  ['/v1/responses', 'event: error\ndata: {"type":"error","code":"rate_limit_exceeded","message":'],
])('a stream of %s ends with its own error event when the budget is spent', async (path, error) => {
  const model = await provider();
  const rig = await chargedRig(CUT, model, 600);

  const overHttp1 = await RawClient.connect(rig.port);
  overHttp1.send(post(path, question(5000, true)));
  await overHttp1.until(({ text }) => text.endsWith('\r\n0\r\n\r\n'));
  await eventually(() => rig.finished.length === 1);
  await rig.limiter.forget(fixedWindow({ name: 'tokens', quota: 600, window: '365d' }).for('all'));
  const overHttp2 = await ask(
    session(rig.url),
    { ':path': path, ':method': 'POST', 'content-type': 'application/json' },
    question(5000, true),
  );
  await eventually(() => rig.finished.length === 2);

  expect(dechunked(overHttp1.text).split('\n\n').at(-1)?.startsWith(error)).toBe(true);
  expect(overHttp2.body.endsWith('\n\n')).toBe(true);
  expect(overHttp2.body.split('\n\n').at(-2)?.startsWith(error)).toBe(true);
  for (const { outcome, reason, cost } of rig.finished) {
    expect({ outcome, reason }).toEqual({ outcome: 'refused', reason: 'budgetSpent' });
    // Until the store has said no, a few words pass.
    expect(cost?.cost).toBeGreaterThan(500);
    expect(cost?.cost).toBeLessThan(3000);
  }
});

/** The body of a response with chunks. */
function dechunked(response: string): string {
  return response
    .slice(response.indexOf('\r\n\r\n') + 4)
    .replaceAll(/(?:^|\r\n)[\da-f]+\r\n/g, '')
    .trimEnd();
}

const BY_MODEL =
  'key: { type: bodyField, name: model, max_bytes: 1KiB }, policies: [tokens], cost: 10, settle: { type: llmTokens }';

async function rigByModel(origin: { readonly url: string }): Promise<ChargedRig> {
  return chargedRig(BY_MODEL, origin);
}

test('tokens are counted by the model that the body names, wherever it stands', async () => {
  const model = await provider();
  const rig = await rigByModel(model);
  const late = `{"messages":[{"content":"${'x '.repeat(300)}"}],"max_tokens":3,"model":"large"}`;

  await exchange(rig.port, post('/v1/messages', question(20, true, 'small')));
  await exchange(rig.port, post('/v1/messages', late, 'Expect: 100-continue\r\n'), 2);

  await expect.poll(async () => rig.charged('small')).toBe(model.used.get('small'));
  await expect.poll(async () => rig.charged('large')).toBe(model.used.get('large'));
});

const LONG = 'x'.repeat(2000);

test.each([
  ['no model', '{"messages":[]}', ''],
  ['a model that comes too late', `{"messages":"${LONG}","model":"small"}`, ''],
  ['a model that is no text', '{"model":["small"]}', ''],
  ['a model that is too long', `{"model":"${'m'.repeat(300)}"}`, ''],
  ['two models', '{"model":"small","model":"large"}', ''],
  ['two spellings', '{"model":"small","Model":"large"}', ''],
  ['an escaped second model', '{"model":"small","\\u006dodel":"large"}', ''],
  ['a model that is deeper', '{"a":{"model":"small"}}', ''],
  ['no JSON', 'model=small', ''],
  ['a compressed body', '{"model":"small"}', 'Content-Encoding: gzip\r\n'],
])('a request with %s gets a 400 and is not forwarded', async (_, body, headers) => {
  const origin = await startOrigin();
  const rig = await rigByModel(origin);

  const client = await exchange(rig.port, post('/', body, headers));

  expect(client.statuses).toEqual([400]);
  expect(origin.requests.filter(({ complete }) => complete)).toEqual([]);
});

test('a second model behind what was read ends the request before it is whole', async () => {
  const origin = await startOrigin();
  const rig = await rigByModel(origin);
  const body = `{"model":"small","messages":"${'x'.repeat(300_000)}","model":"large"}`;

  const client = await RawClient.connect(rig.port);
  client.send(post('/', body));
  await client.until(({ closed, statuses }) => closed || statuses.length > 0);
  await eventually(() => rig.finished.length === 1);

  expect(rig.finished[0]).toMatchObject({ reason: 'AMBIGUOUS_BODY' });
  expect(origin.requests.filter(({ complete }) => complete)).toEqual([]);
});

test('a body whose beginning was read arrives byte by byte as it was sent', async () => {
  const origin = await startOrigin();
  const rig = await rigByModel(origin);
  const body = `{"model":"small","messages":"${'xyz'.repeat(100_000)}"}`;
  const pieces = [body.slice(0, 10), body.slice(10, 2000), body.slice(2000)];

  const client = await RawClient.connect(rig.port);
  client.send(
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
  );
  for (const piece of pieces) {
    client.send(`${piece.length.toString(16)}\r\n${piece}\r\n`);
    await new Promise(setImmediate);
  }
  client.send('0\r\n\r\n');
  await client.until(({ statuses }) => statuses.length > 0);

  expect(client.statuses).toEqual([200]);
  expect(origin.requests[0]?.body).toBe(body);
});

test('a client that goes away while its body is read leaves nothing behind', async () => {
  const origin = await startOrigin();
  const rig = await rigByModel(origin);

  const client = await RawClient.connect(rig.port);
  client.send(
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"model":"sm',
  );
  await eventually(() => rig.asked.length === 1);
  client.socket.resetAndDestroy();
  await once(client.socket, 'close');
  await eventually(() => rig.finished.length === 1);

  expect(rig.finished[0]).toMatchObject({ outcome: 'aborted' });
  await expect.poll(async () => rig.charged('small')).toBe(0);
});

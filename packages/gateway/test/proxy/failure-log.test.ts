import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { UpstreamFailureLog } from '../../src/proxy/forward/upstream-failure.ts';
import type { Log } from '../../src/telemetry/log.ts';
import { exchange, listen, startRig } from './rig.ts';

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

function recorded(): { readonly log: Log; readonly lines: object[] } {
  const lines: object[] = [];
  const ignore = () => undefined;
  return { lines, log: { debug: ignore, info: ignore, warn: (fields) => lines.push(fields), error: ignore } };
}

function failure(upstream: string, error = new Error('refused')) {
  return { upstream, requestId: 'id', error };
}

test('each upstream has one line per second, which counts what was left out', () => {
  const { log, lines } = recorded();
  let nowMs = 0;
  const failures = new UpstreamFailureLog(log, () => nowMs);

  for (nowMs of [0, 1, 999]) failures.failed(failure('http://a'));
  failures.failed(failure('http://b'));
  for (nowMs of [1000, 2000]) failures.failed(failure('http://a'));

  const line = { requestId: 'id', detail: 'refused' };
  expect(lines).toEqual([
    { ...line, upstream: 'http://a', unsaid: 0 },
    { ...line, upstream: 'http://b', unsaid: 0 },
    { ...line, upstream: 'http://a', unsaid: 2 },
    { ...line, upstream: 'http://a', unsaid: 0 },
  ]);
});

test('a thousand upstreams are remembered; the one that was silent for longest goes first', () => {
  const { log, lines } = recorded();
  const failures = new UpstreamFailureLog(log, () => 0);
  for (let at = 0; at < 1000; at += 1) failures.failed(failure(`http://${at}`));
  failures.failed(failure('http://0'));
  expect(lines).toHaveLength(1000);

  failures.failed(failure('http://1000'));

  failures.failed(failure('http://1'));
  expect(lines).toHaveLength(1001);
  failures.failed(failure('http://0'));
  expect(lines).toHaveLength(1002);
});

test.each([
  [new AggregateError([new Error('connect ECONNREFUSED ::1:3000')]), 'connect ECONNREFUSED ::1:3000'],
  [new AggregateError([new Error('first')], 'all failed'), 'all failed'],
  [new AggregateError([]), 'AggregateError'],
])('%j is told in words', (error, detail) => {
  const { log, lines } = recorded();

  new UpstreamFailureLog(log).failed(failure('http://a', error));

  expect(lines).toEqual([{ upstream: 'http://a', requestId: 'id', detail, unsaid: 0 }]);
});

test('a backend that is down is one line without a stack, although the request is tried twice', async () => {
  const { log, lines } = recorded();
  const server = createServer();
  const port = await listen(server);
  await new Promise((resolve) => server.close(resolve));
  const url = `http://127.0.0.1:${port}`;
  const rig = await startRig({ origin: { url }, config: { backend: { max_retries: 1 } }, log });

  for (let request = 0; request < 3; request += 1) {
    expect((await exchange(rig.port, GET)).statuses).toEqual([502]);
  }

  expect(lines).toEqual([
    {
      upstream: url,
      requestId: rig.finished[0]?.id,
      detail: `connect ECONNREFUSED 127.0.0.1:${port}`,
      unsaid: 0,
    },
  ]);
});

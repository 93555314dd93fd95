// Keys from the body, over real sockets: what the rules were told is what the backend reads.
import { createLimiter } from 'spillgate';
import { expect, test } from 'vitest';
import { gateOf } from '../rules/facts.ts';
import { eventually, RawClient, startOrigin, startRig, type Origin, type Rig } from './rig.ts';

async function rigBy(key: string, rule = ''): Promise<Rig & { readonly origin: Origin }> {
  const origin = await startOrigin();
  const { gate } = gateOf(
    `
  policies: { all: { algorithm: fixedWindow, quota: 1000, window: 1h } }
  rules: [{ name: all, policies: [all], key: { type: bodyField, ${key} }, ${rule} }]
`,
    { limiter: createLimiter() },
  );
  const rig = await startRig({ origin, rule: (facts, waiter) => gate.decide(facts, waiter) });
  return { ...rig, origin };
}

/** What the gateway answers, if the connection is not cut off instead. */
async function posted({ port, finished }: Rig, body: string): Promise<readonly number[]> {
  const client = await RawClient.connect(port);
  const bytes = Buffer.from(body).toString('latin1');
  client.send(
    `POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${bytes.length}\r\n\r\n${bytes}`,
  );
  await client.until(({ closed, statuses }) => closed || statuses.length > 0);
  await eventually(() => finished.length === 1);
  return client.statuses;
}

const FILL = 'x'.repeat(2000);
const DEEP = `${'['.repeat(600)}${']'.repeat(600)}`;
const NAME = 'n'.repeat(64);

test.each([
  ['behind what is nested deeply', 'user', `{"user":"a","x":${DEEP},"user":"b"}`],
  ['behind what only some call JSON', 'user', `{"user":"a","x":NaN,"user":"b"}`],
  ['behind a first document', 'user', `{"user":"a"}{"user":"b"}`],
  ['in a spelling that folds to the name', 'user', `{"user":"a","u\u017fer":"b"}`],
  ['in escapes', NAME, `{"${NAME}":"a","${'\\u006e'.repeat(64)}":"b"}`],
  ['behind what was read', 'user', `{"user":"a","x":"${FILL}","user":"b"}`],
  ['behind what was read, deeply nested', 'user', `{"user":"a","x":"${FILL}","y":${DEEP},"user":"b"}`],
])('a body that says another key %s does not reach the backend', async (_, name, body) => {
  const rig = await rigBy(`name: ${name}, max_bytes: 1KiB`);

  const statuses = await posted(rig, body);

  expect(statuses).toEqual([400]);
  expect(rig.origin.requests.filter(({ complete }) => complete)).toEqual([]);
});

test.each([
  ['too late', `{"x":"${FILL}","user":"a"}`],
  ['with its value too late', `{"x":"${'x'.repeat(1007)}","user":"a"}`],
  ['at a length that is not read', `{"user":"${'\\u0061'.repeat(128)}"}`],
  ['as a number', '{"user":7}'],
  ['as a list', '{"user":["a"]}'],
  ['in another encoding', `\uFEFF{"user":"a"}`],
])('a body that says its key %s is not counted by its address instead', async (_, body) => {
  const rig = await rigBy('name: user, max_bytes: 1KiB, on_missing: clientIP');

  const statuses = await posted(rig, body);

  expect(statuses).toEqual([400]);
  expect(rig.origin.requests.filter(({ complete }) => complete)).toEqual([]);
});

test.each([['{}'], ['{"user":null}'], ['{"user":""}'], ['{"a":{"user":"a"}}'], ['[{"user":"a"},"b"]']])(
  'the body %s says no key, and is counted by its address',
  async (body) => {
    const rig = await rigBy('name: user, on_missing: clientIP');

    const statuses = await posted(rig, body);

    expect(statuses).toEqual([200]);
    expect(rig.finished[0]?.counted?.[0]?.key).toBe('@127.0.0.1');
  },
);

test.each([
  ['twice', `{"user":"a","user":"b"}`],
  ['twice, the second time late', `{"user":"a","x":"${FILL}","user":"b"}`],
  ['too late', `{"x":"${FILL}","user":"a"}`],
])('in shadow mode a body that says its key %s passes', async (_, body) => {
  const rig = await rigBy('name: user, max_bytes: 1KiB', 'shadow: true');

  const statuses = await posted(rig, body);

  expect(statuses).toEqual([200]);
  expect(rig.origin.requests[0]?.body).toBe(body);
});

test('a deny list by a field of the body holds where a rule counts by something else', async () => {
  const origin = await startOrigin();
  const { gate } = gateOf(`
  key_strategy: { type: bodyField, name: user, on_missing: clientIP }
  deny: { keys: [mallory] }
  policies: { all: { algorithm: fixedWindow, quota: 1000, window: 1h } }
  rules: [{ name: all, policies: [all], key: clientIP }]
`);
  const rig = await startRig({ origin, rule: (facts, waiter) => gate.decide(facts, waiter) });

  expect(await posted(rig, '{"user":"mallory"}')).toEqual([403]);
});

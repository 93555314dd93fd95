// Requests that hold a slot and whose cost is settled: both end with the response.
import { concurrency } from 'spillgate';
import { expect, test } from 'vitest';
import { chargedRig, question, post, requests, type ChargedRig } from './charged-rig.ts';
import { eventually, exchange, RawClient, startOrigin } from './rig.ts';

const inFlight = concurrency({ name: 'inFlight', limit: 2, hold: '1m' });
const RULE =
  'policies: [inFlight, { policy: requests, cost: 1 }, tokens], cost: 500, settle: { type: header, header_name: X-Cost }';
const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

async function free({ limiter }: ChargedRig): Promise<number> {
  return (await limiter.peek(inFlight.for('all'))).remaining;
}

test('a slot is held and a cost reserved until the response ends, then it is free and the cost is settled', async () => {
  const ends: (() => void)[] = [];
  const origin = await startOrigin((_, response) => {
    response.writeHead(200, { 'X-Cost': '70' });
    response.write('some');
    ends.push(() => response.end());
  });
  const rig = await chargedRig(RULE, origin);

  const client = await RawClient.connect(rig.port);
  client.send(GET);
  await client.until(({ text }) => text.includes('some'));

  expect(await free(rig)).toBe(1);
  expect(await rig.charged()).toBe(500);
  expect(client.text).toMatch(/"inFlight";q=2.*"tokens";q=100000/);

  for (const end of ends) end();
  await eventually(() => rig.finished.length === 1);

  await expect.poll(async () => rig.charged()).toBe(70);
  await expect.poll(async () => free(rig)).toBe(2);
  expect(await rig.charged('all', requests)).toBe(1);
});

test('without a slot nothing is charged, and without room for the cost no slot is held', async () => {
  const origin = await startOrigin(() => undefined);
  const rig = await chargedRig(RULE, origin, 1200);

  for (let at = 0; at < 2; at += 1) (await RawClient.connect(rig.port)).send(GET);
  await eventually(() => origin.requests.length === 2);
  const withoutSlot = await exchange(rig.port, GET);

  expect(withoutSlot.statuses).toEqual([429]);
  expect(withoutSlot.text).toContain('"inFlight"');
  expect(await rig.charged()).toBe(1000);
  expect(await rig.charged('all', requests)).toBe(2);

  const poor = await chargedRig(RULE, origin, 600);
  (await RawClient.connect(poor.port)).send(GET);
  await eventually(() => origin.requests.length === 3);
  const withoutRoom = await exchange(poor.port, GET);

  expect(withoutRoom.statuses).toEqual([429]);
  expect(withoutRoom.text).toContain('"tokens"');
  await expect.poll(async () => free(poor)).toBe(1);
  expect(await poor.charged('all', requests)).toBe(1);
});

test('a client that leaves frees its slot, and is charged for what it asked', async () => {
  const origin = await startOrigin(() => undefined);
  const rig = await chargedRig(
    'policies: [inFlight, tokens], cost: 500, settle: { type: llmTokens }',
    origin,
  );
  const body = question(1000, true);

  const client = await RawClient.connect(rig.port);
  client.send(post('/', body));
  await eventually(() => origin.requests.length === 1);
  client.socket.resetAndDestroy();

  await expect.poll(async () => rig.charged()).toBe(Math.ceil(body.length / 4));
  await expect.poll(async () => free(rig)).toBe(2);
});

test('a rule may say how many slots a request holds', async () => {
  const origin = await startOrigin(() => undefined);
  const rig = await chargedRig(
    'policies: [{ policy: inFlight, cost: 2 }, tokens], cost: 5, settle: { type: responseBytes }',
    origin,
  );

  (await RawClient.connect(rig.port)).send(GET);
  await eventually(() => origin.requests.length === 1);

  expect(await free(rig)).toBe(0);
  expect((await exchange(rig.port, GET)).statuses).toEqual([429]);
});

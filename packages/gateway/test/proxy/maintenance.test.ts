import { expect, test } from 'vitest';
import { runGateway } from '../runtime/running-gateway.ts';
import { exchange, startOrigin } from './rig.ts';

async function closable(maintenance: string, more = '') {
  const origin = await startOrigin();
  const yaml = (section: string): string => `
backend: { url: "${origin.url}" }
maintenance: ${section}
rate_limit: { policies: { one: { algorithm: fixedWindow, quota: 1, window: 1h } }, rules: [{ name: all, policies: [one] }] }
${more}
`;
  return { origin, yaml, ...(await runGateway(yaml(maintenance))) };
}

test('requests get a 503 that says when to come back, and are not counted', async () => {
  const { ask, reload, yaml, origin, gateway } = await closable('{ enabled: true, retry_after: 90s }');

  const closed = [await ask(), await ask('/', { method: 'POST', body: 'a body' })];
  const summary = gateway.summary().requests;
  await reload(yaml('{ enabled: false }'));
  const open = await ask();

  expect(closed.map(({ status }) => status)).toEqual([503, 503]);
  expect(closed[0]?.headers['retry-after']).toBe('90');
  expect(JSON.parse(closed[0]?.body ?? '')).toMatchObject({ code: 'MAINTENANCE' });
  expect(summary).toMatchObject({ answered: 2, failed: 0, refused: 0 });
  expect(open.status).toBe(200);
  expect(origin.requests).toHaveLength(1);
});

test.each([
  ['"<h1>Closed</h1><p>{{path}}</p>"', 'text/html; charset=utf-8', '<h1>Closed</h1><p>&#47;a&#39;b</p>'],
  ['\'{"closed":true}\'', 'application/json', '{"closed":true}'],
  ['"Back soon."', 'text/plain; charset=utf-8', 'Back soon.'],
])('a body of %s is sent as %s', async (body, type, text) => {
  const { ask } = await closable(`{ enabled: true, body: ${body} }`);

  const answer = await ask("/a'b");

  expect(answer.status).toBe(503);
  expect(answer.headers['content-type']).toBe(type);
  expect(answer.body).toBe(text);
});

test('some addresses are served as usual', async () => {
  const { ask } = await closable('{ enabled: true, allow: ["127.0.0.0/8"] }');

  expect((await ask()).status).toBe(200);
});

test('WebSockets are not opened, and pages can read why', async () => {
  const { port, origin } = await closable(
    '{ enabled: true }',
    'cors: { allowed_origins: ["https://a.example"] }',
  );

  const { statuses, text } = await exchange(
    port,
    'GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
  );

  expect(statuses).toEqual([503]);
  expect(text).toContain('Access-Control-Allow-Origin: https://a.example\r\n');
  expect(origin.requests).toEqual([]);
});

test('operators switch it by the admin API, beyond reloads', async () => {
  const { ask, askAdmin, reload, yaml } = await closable('{ enabled: false }');
  const post = async (state: string) =>
    askAdmin(`/v1/maintenance/${state}`, { method: 'POST', headers: { 'Content-Type': 'application/json' } });

  const on = await post('on');
  await reload(yaml('{ enabled: false, retry_after: 5s }'));
  const closed = await ask();
  const back = await post('configured');
  const open = await ask();
  await reload(yaml('{ enabled: true }'));
  const off = await post('off');
  const limited = await ask();
  const wrong = await post('nonsense');

  expect(JSON.parse(on.body)).toEqual({ enabled: true, configured: false, switchedTo: true });
  expect([closed.status, closed.headers['retry-after']]).toEqual([503, '5']);
  expect(JSON.parse(back.body)).toEqual({ enabled: false, configured: false });
  expect(open.status).toBe(200);
  expect(JSON.parse(off.body)).toEqual({ enabled: false, configured: true, switchedTo: false });
  expect(limited.status).toBe(429);
  expect(wrong.status).toBe(400);
  expect(JSON.parse((await askAdmin('/v1/maintenance')).body)).toMatchObject({ enabled: false });
});

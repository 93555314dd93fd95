import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { renderTemplate, templateComplaint, TEMPLATE_FIELDS } from '../../../src/config/answer-template.ts';
import { preferredForm } from '../../../src/proxy/answers/custom-answers.ts';
import { runGateway } from '../../runtime/running-gateway.ts';
import { exchange, startOrigin } from '../rig.ts';

async function answering(answers: string, ofRule = '[]') {
  const origin = await startOrigin();
  return runGateway(`
backend: { url: "${origin.url}" }
server:
  answers: ${answers}
rate_limit:
  policies: { one: { algorithm: fixedWindow, quota: 1, window: 1h } }
  rules:
    - { name: shop, match: { path: "/shop/**" }, policies: [one], answers: ${ofRule} }
    - { name: rest, policies: [one] }
`);
}

const IN_WORDS = `
    - on: [limits]
      status: 420
      headers: { X-Policy: "{{policy}} {{limit}}" }
      json: '{"error":"slow down","policy":"{{policy}}","seconds":{{retry_after}},"path":"{{path}}"}'
      html: "<h1>{{title}}</h1><p>Wait {{retry_after}} s, {{path}}</p>"
      text: "wait {{retry_after}} s"
      grpc: { status: 14, message: "wait {{retry_after}} s, {{rule}}" }
`;

test.each([
  ['application/json', 'application/json'],
  ['text/html,application/xhtml+xml,*/*;q=0.8', 'text/html; charset=utf-8'],
  ['text/plain', 'text/plain; charset=utf-8'],
  ['*/*', 'application/json'],
  ['text/*;q=0.5, application/json;q=0.1', 'text/html; charset=utf-8'],
  ['image/png', 'application/problem+json'],
])('a client that accepts %s gets %s', async (accept, type) => {
  const { ask } = await answering(IN_WORDS);
  await ask('/');

  const { status, headers, body } = await ask('/', { headers: { Accept: accept } });

  expect(status).toBe(420);
  expect(headers['content-type']).toBe(type);
  expect(headers['x-policy']).toBe('one 1');
  expect(headers.vary).toBe('Accept');
  expect(headers).toHaveProperty('retry-after');
  expect(headers).toHaveProperty('x-request-id');
  expect(headers).toHaveProperty('ratelimit');
  if (type.endsWith('json')) expect(JSON.parse(body)).toBeTypeOf('object');
});

test('the fields of the decision are filled in', async () => {
  const { ask } = await answering(IN_WORDS);
  await ask('/');

  const { body, headers } = await ask('/a', { headers: { Accept: 'application/json' } });

  expect(JSON.parse(body)).toEqual({
    error: 'slow down',
    policy: 'one',
    seconds: Number(headers['retry-after']),
    path: '/a',
  });
});

test('the answer of a rule wins over the common one', async () => {
  const { ask } = await answering(IN_WORDS, '[{ on: [limits], text: "the shop is full" }]');
  await ask('/shop/a');
  const shop = await ask('/shop/a');
  const rest = await ask('/', { headers: { Accept: 'text/plain' } });

  expect([shop.status, shop.body]).toEqual([429, 'the shop is full']);
  expect([rest.status, rest.body]).toEqual([420, expect.stringMatching(/^wait \d+ s$/)]);
});

test('errors of the gateway and refused upgrades have answers too', async () => {
  const { ask, port } = await answering(
    '[{ on: [INVALID_TARGET, limits], status: 418, text: "{{code}}: no" }]',
  );
  await ask('/');

  const malformed = await exchange(port, 'GET /../.. HTTP/1.1\r\nHost: a\r\n\r\n');
  const upgrade = await exchange(
    port,
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
  );

  expect(malformed.statuses).toEqual([418]);
  expect(malformed.text).toMatch(/\r\n\r\nINVALID_TARGET: no$/);
  expect(upgrade.statuses).toEqual([418]);
  expect(upgrade.text).toMatch(/\r\n\r\nlimits: no$/);
});

test('a status alone keeps the problem, which says it too', async () => {
  const { ask } = await answering('[{ on: [limits], status: 503 }]');
  await ask('/');

  const { status, body, headers } = await ask('/');

  expect(status).toBe(503);
  expect(headers['content-type']).toBe('application/problem+json');
  expect(JSON.parse(body)).toMatchObject({ status: 503, title: 'Service Unavailable' });
});

test('gRPC clients get a status and a message of their own', async () => {
  const { port, ask } = await answering(IN_WORDS);
  await ask('/');

  const { text } = await exchange(
    port,
    'POST /a HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n',
  );

  expect(text).toContain('grpc-status: 14\r\n');
  expect(text).toMatch(/grpc-message: wait \d+ s, rest\r\n/);
});

test('what a client sent never becomes markup, JSON or a header', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (path) => {
      const html = renderTemplate('<p>{{path}}</p>', { path }, 'html');
      const json: unknown = JSON.parse(renderTemplate('{"a":"{{path}}"}', { path }, 'json'));
      const header = renderTemplate('a {{path}}', { path }, 'header');
      const text = renderTemplate('{{path}}', { path }, 'text');

      expect(html.slice(3, -4)).not.toMatch(/[<>"'`]/);
      expect(json).toEqual({ a: path });
      expect(header).toMatch(/^[ -~]*$/);
      expect(text).not.toMatch(/[\r\n\u2028\u202E]/);
    }),
  );
});

test('a field is not filled in twice', () => {
  expect(renderTemplate('{{path}}', { path: '{{host}}', host: 'secret' }, 'text')).toBe('{{host}}');
});

test.each([
  ['json', '{"a":{{policy}}}'],
  ['json', '{"a":"{{policy}}'],
  ['html', '<a href="{{path}}">'],
  ['html', '<script>let a = "{{path}}"</script>'],
  ['html', '<style>{{path}}</style>'],
  ['html', '<p {{path}}'],
  ['html', '<!-- {{path}} -->'],
  ['text', '{{secret}}'],
  ['text', '{{constructor}}'],
  ['header', 'a\r\nSet-Cookie: b'],
] as const)('a template for %s may not be %s', (form, template) => {
  expect(templateComplaint(template, form)).toBeTypeOf('string');
});

test.each([
  ['json', '{"a":"{{policy}}","b":{{limit}},"c":["{{ path }}"]}'],
  ['html', '<!doctype html><style>p{}</style><p class="a">{{path}} &lt; {{limit}}</p><script>1<2</script>'],
  [
    'text',
    Object.keys(TEMPLATE_FIELDS)
      .map((name) => `{{${name}}}`)
      .join(' '),
  ],
] as const)('a template for %s may be %s', (form, template) => {
  expect(templateComplaint(template, form)).toBeUndefined();
});

test('the most specific range of Accept decides, and what is not wanted is not sent', () => {
  expect(preferredForm(['text/html;q=0, */*'], ['html', 'text'])).toBe('text');
  expect(preferredForm(['text/*, text/html;q=0.1'], ['html', 'text'])).toBe('text');
  expect(preferredForm([], ['html', 'text'])).toBe('html');
  expect(preferredForm(['nonsense'], ['html', 'text'])).toBe('html');
  expect(preferredForm(['application/json'], ['html', 'text'])).toBeUndefined();
});

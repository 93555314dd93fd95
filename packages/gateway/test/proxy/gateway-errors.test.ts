import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { grpcAnswer, GATEWAY_ERRORS, errorAnswer, refusalText } from '../../src/proxy/gateway-errors.ts';
import { REFUSED } from './rig.ts';

const page = readFileSync(new URL('../../../../docs/gateway-http.md', import.meta.url), 'utf8');

test('every answer of the gateway is documented, and nothing else', () => {
  const documented = [...page.matchAll(/^\| `([A-Z_]+)` \| (\d{3}) \|/gm)].map(([, code, status]) => [
    code,
    Number(status),
  ]);

  expect(documented).toEqual(Object.entries(GATEWAY_ERRORS).map(([code, { status }]) => [code, status]));
});

test('an answer of the gateway is a problem with a code and the id of the request', () => {
  const { status, headers, body } = errorAnswer('BODY_TOO_LARGE', 'the-id');

  expect(status).toBe(413);
  expect(headers).toEqual(['Content-Type', 'application/problem+json']);
  expect(JSON.parse(body)).toEqual({
    type: 'about:blank',
    title: 'Payload Too Large',
    status: 413,
    detail: 'The body is larger than this gateway forwards.',
    code: 'BODY_TOO_LARGE',
    requestId: 'the-id',
  });
});

test.each([
  [400, '13'],
  [408, '4'],
  [413, '8'],
  [429, '8'],
  [500, '13'],
  [501, '12'],
  [502, '14'],
  [503, '14'],
  [504, '4'],
  [418, '2'],
])('HTTP %i is %s in gRPC', (status, grpc) => {
  expect(grpcAnswer(status, 'why', [])).toEqual({
    status: 200,
    headers: ['content-type', 'application/grpc', 'grpc-status', grpc, 'grpc-message', 'why'],
    body: '',
  });
});

test('a message for gRPC has only characters that a header may have', () => {
  expect(grpcAnswer(500, '100 % \r\nüber 😀', []).headers[5]).toBe('100 %25 %0D%0A%C3%BCber %F0%9F%98%80');
});

test('a refusal is a problem, and for gRPC its sentence', () => {
  const { status, headers, body } = refusalText(REFUSED, 'request-1', false);
  const grpc = refusalText(REFUSED, 'request-1', true);

  expect(status).toBe(429);
  expect(headers).toEqual(['Retry-After', '7', 'Content-Type', 'application/problem+json']);
  expect(JSON.parse(body)).toEqual({ ...REFUSED.problem, requestId: 'request-1' });
  expect(grpc).toEqual(grpcAnswer(429, REFUSED.problem.detail, ['Retry-After', '7']));
});

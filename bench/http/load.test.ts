import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { answerLength, sendRequests } from './load.ts';

test('an answer ends where its length says', () => {
  const answer = 'HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5\r\n\r\nhello';

  expect(answerLength(Buffer.from(`${answer}HTTP/1.1`))).toBe(answer.length);
  expect(answerLength(Buffer.from(answer.slice(0, 30)))).toBeUndefined();
});

test('an answer that is not a 200 is a mistake', () => {
  expect(() => answerLength(Buffer.from('HTTP/1.1 429 Too Many\r\nContent-Length: 0\r\n\r\n'))).toThrow(
    '429',
  );
});

test('every request that is counted was answered', async () => {
  let served = 0;
  const server = createServer((_request, response) => {
    served += 1;
    response.end('hello');
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;

  const counted = await sendRequests(port, 8, 1000);

  server.close();
  expect(counted).toBe(served);
  expect(counted).toBeGreaterThan(8);
});

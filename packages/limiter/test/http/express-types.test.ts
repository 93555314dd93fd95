// Compiled with the types of Express 4 and of Express 5: what is written here needs no annotation in an application.
import { createServer, type RequestListener } from 'node:http';
import express from 'express';
import express4 from 'express4';
import { expect, test } from 'vitest';
import { rateLimit } from '../../src/adapters/express.ts';
import { createLimiter, tokenBucket } from '../../src/index.ts';
import { startServer } from './running-server.ts';

const limiter = createLimiter();
const policies = tokenBucket({ name: 'api', average: 3, period: '1h' });

/** The statuses of two requests for an item. */
async function statuses(app: RequestListener): Promise<number[]> {
  const framework = { name: 'Express', createServer: () => createServer(app), headerOf: () => undefined };
  const running = await startServer(framework, { limiter, policies });
  return running.statuses(2, { path: '/items/7?n=1', headers: { 'x-user': 'ann' } });
}

test('a middleware of rateLimit() fits wherever Express 5 takes one', async () => {
  const app = express();
  app.use(rateLimit({ limiter, policies, key: (request) => `5 ${request.ip}` }));
  app.use('/items', rateLimit({ limiter, policies, key: (request) => request.get('x-user') }));
  app.get('/items/:id', rateLimit({ limiter, policies, cost: ({ query }) => Number(query['n']) * 3 }));
  app.use((_request, response) => void response.send('hello'));

  expect(await statuses(app)).toEqual([200, 429]);
});

test('a middleware of rateLimit() fits wherever Express 4 takes one', async () => {
  const app = express4();
  app.use(rateLimit({ limiter, policies, key: (request) => `4 ${request.ip}` }));
  app.use('/items', rateLimit({ limiter, policies, key: (request) => request.get('x-user') }));
  app.get('/items/:id', rateLimit({ limiter, policies, key: ({ path }) => path, cost: () => 3 }));
  app.use((_request, response) => void response.send('hello'));

  expect(await statuses(app)).toEqual([200, 429]);
});

test('a function may name the type of the request that it wants', async () => {
  const app = express();
  const user = (request: express.Request): string => request.subdomains[0] ?? 'nobody';
  app.use('/items', rateLimit({ limiter, policies, key: user, cost: 3, skip: (request) => request.xhr }));
  app.use((_request, response) => void response.send('hello'));

  expect(await statuses(app)).toEqual([200, 429]);
});

// A key from the body, as docs/fastify.md reads it: whatever a client sends must not become an error of the server.
import type { FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { rateLimit } from '../../../src/adapters/fastify.ts';
import { createLimiter, slidingWindowLog } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { application } from './application.ts';

interface Login {
  Body: { user?: unknown } | undefined;
}

test.each([
  ['no body', undefined],
  ['a body without a user', {}],
  ['a user that is a number', { user: 7 }],
  ['a user that is null', { user: null }],
  ['a user', { user: 'ann' }],
])('%s is counted, and answered', async (_, payload) => {
  const app = application();
  app.register(
    rateLimit({
      limiter: createLimiter({ clock: virtualClock() }),
      policies: slidingWindowLog({ name: 'login', quota: 1, window: '15m' }),
      hook: 'preValidation',
      key: ({ body }: FastifyRequest<Login>) => (typeof body?.user === 'string' ? body.user : undefined),
      missingKey: 'address',
    }),
  );
  app.post<Login>('/login', () => 'welcome');
  const send = async (): Promise<number> => {
    const { statusCode } = await app.inject({
      method: 'POST',
      url: '/login',
      ...(payload === undefined ? {} : { payload }),
    });
    return statusCode;
  };

  expect([await send(), await send()]).toEqual([200, 429]);
});

import fastify, { type FastifyInstance, type InjectOptions } from 'fastify';
import { onTestFinished } from 'vitest';

/** An application that ends with its test. */
export function application(): FastifyInstance {
  const app = fastify();
  onTestFinished(() => app.close());
  return app;
}

/** What `count` requests get, one after the other. */
export async function statuses(
  app: FastifyInstance,
  count: number,
  request: InjectOptions | string,
): Promise<number[]> {
  const found: number[] = [];
  for (let sent = 0; sent < count; sent += 1) found.push((await app.inject(request)).statusCode);
  return found;
}

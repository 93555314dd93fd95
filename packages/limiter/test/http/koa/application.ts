import { createServer, type Server } from 'node:http';
import Koa, { type Middleware } from 'koa';
import { startServer, type RunningServer } from '../running-server.ts';

/** A server of Koa with this middleware; what nobody handles is kept in `errors` and not printed. */
export async function serve(...middleware: Middleware[]): Promise<RunningServer & { errors: unknown[] }> {
  const app = new Koa();
  const errors: unknown[] = [];
  app.on('error', (error) => errors.push(error));
  for (const each of middleware) app.use(each);
  const running = await startServer(
    { name: 'Koa', createServer: () => serverOf(app), headerOf: () => undefined },
    [],
  );
  return { ...running, errors };
}

export function serverOf(app: Koa): Server {
  const handle = app.callback();
  return createServer((request, response) => void handle(request, response));
}

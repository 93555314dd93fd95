import { Hono, type Context } from 'hono';
import { rateLimit } from '../../../src/adapters/hono.ts';
import { describeAdapter } from '../describe-adapter.ts';
import { fetchServer } from '../fetch-server.ts';

describeAdapter<Context>({
  name: 'Hono',
  createServer(options, serve) {
    const app = new Hono();
    for (const each of options) app.use(rateLimit(each));
    app.all('*', (context) => context.text(serve()));
    return fetchServer(app.fetch);
  },
  headerOf: (context, name) => context.req.header(name),
});

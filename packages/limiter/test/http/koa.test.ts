import Koa, { type Context } from 'koa';
import { rateLimit } from '../../src/adapters/koa.ts';
import { describeAdapter } from './describe-adapter.ts';
import { serverOf } from './koa/application.ts';

describeAdapter<Context>({
  name: 'Koa 3',
  createServer(options, serve) {
    const app = new Koa();
    for (const each of options) app.use(rateLimit(each));
    app.use((context) => {
      context.body = serve();
    });
    return serverOf(app);
  },
  headerOf: (context, name) => context.get(name) || undefined,
});

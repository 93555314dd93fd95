import { createServer } from 'node:http';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { rateLimit } from '../../src/adapters/fetch.ts';
import { describeAdapter } from './describe-adapter.ts';

type Handler = (request: Request, platform: HttpBindings) => Promise<Response>;

describeAdapter<Request>({
  name: 'fetch handlers',
  createServer(options, serve) {
    const peer = (_: Request, { incoming }: HttpBindings) => incoming.socket.remoteAddress;
    const handle = options.reduceRight<Handler>(
      (inner, each) => rateLimit({ ...each, peer })(inner),
      () => Promise.resolve(new Response(serve())),
    );
    const listener = getRequestListener((request, platform) => handle(request, platform as HttpBindings), {
      overrideGlobalObjects: false,
    });
    return createServer(listener);
  },
  headerOf: (request, name) => request.headers.get(name) ?? undefined,
});

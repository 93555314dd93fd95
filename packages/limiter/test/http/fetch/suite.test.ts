import type { HttpBindings } from '@hono/node-server';
import { rateLimit } from '../../../src/adapters/fetch.ts';
import { describeAdapter } from '../describe-adapter.ts';
import { fetchServer, type Fetch } from '../fetch-server.ts';

describeAdapter<Request>({
  name: 'fetch handlers',
  createServer(options, serve) {
    const peer = (_: Request, { incoming }: HttpBindings) => incoming.socket.remoteAddress;
    const handle = options.reduceRight<Fetch>(
      (inner, each) => rateLimit({ ...each, peer })(inner),
      () => new Response(serve()),
    );
    return fetchServer(handle, { ownResponses: false });
  },
  headerOf: (request, name) => request.headers.get(name) ?? undefined,
});

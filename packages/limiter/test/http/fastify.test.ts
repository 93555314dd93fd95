import fastify, { type FastifyRequest } from 'fastify';
import { rateLimit } from '../../src/adapters/fastify.ts';
import { describeAdapter } from './describe-adapter.ts';

for (const hook of ['onRequest', 'preHandler'] as const) {
  describeAdapter<FastifyRequest>({
    name: `Fastify 5, ${hook}`,
    async createServer(options, serve) {
      const app = fastify();
      // Bodies are not read: the suite sends half of one.
      app.addContentTypeParser('*', (_request, _body, done) => done(null));
      for (const each of options) app.register(rateLimit({ ...each, hook }));
      app.all('/*', (_request, reply) => reply.send(serve()));
      await app.ready();
      return app.server;
    },
    headerOf: (request, name) => request.headers[name]?.toString(),
  });
}

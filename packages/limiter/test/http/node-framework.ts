import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { rateLimit } from '../../src/adapters/node.ts';
import type { Framework } from './running-server.ts';

export const nodeFramework: Framework<IncomingMessage> = {
  name: 'node:http',
  createServer(options, serve) {
    const limits = options.map((each) => rateLimit(each));
    const handle = (request: IncomingMessage, response: ServerResponse, at: number): void => {
      const limit = limits[at];
      if (limit === undefined) response.end(serve());
      else limit(request, response, () => handle(request, response, at + 1));
    };
    return createServer((request, response) => handle(request, response, 0));
  },
  headerOf: (request, name) => request.headers[name]?.toString(),
};

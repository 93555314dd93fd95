import { createServer } from 'node:http';
import express, { type Request } from 'express4';
import { rateLimit } from '../../src/adapters/express.ts';
import { describeAdapter } from './describe-adapter.ts';

describeAdapter<Request>({
  name: 'Express 4',
  createServer(options, serve) {
    const app = express();
    for (const each of options) app.use(rateLimit(each));
    app.use((_request, response) => void response.send(serve()));
    return createServer(app);
  },
  headerOf: (request, name) => request.header(name),
});

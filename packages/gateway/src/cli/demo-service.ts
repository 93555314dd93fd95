import { createServer, type IncomingMessage, type Server } from 'node:http';
import { listenOn } from '../runtime/listen.ts';

const MAX_COUNTED_BODY_BYTES = 1_048_576;

/** A backend for a gateway without any configuration: it answers with what it was asked, secrets included. */
export interface DemoService {
  readonly url: string;
  close(): void;
}

export async function startDemoService(): Promise<DemoService> {
  const server = demoServer();
  const { port } = await listenOn(server, '127.0.0.1:0');
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function demoServer(): Server {
  let served = 0;
  const server: Server = createServer((request, response) => {
    let bodyBytes = 0;
    request.on('data', (chunk: Buffer) => {
      bodyBytes += chunk.length;
      if (bodyBytes > MAX_COUNTED_BODY_BYTES) request.destroy();
    });
    request.on('end', () => {
      served += 1;
      response.setHeader('Content-Type', 'application/json');
      response.end(`${JSON.stringify(seen(request, bodyBytes, served), undefined, 2)}\n`);
    });
  });
  // The gateway keeps its connections; who closes them first must not be a race.
  server.keepAliveTimeout = 0;
  return server;
}

function seen({ method, url, headers }: IncomingMessage, bodyBytes: number, served: number): object {
  return {
    message: 'Hello from the demo behind the gateway. Set backend.url to see your own service here.',
    requestNumber: served,
    saw: { method, url, bodyBytes, headers },
  };
}

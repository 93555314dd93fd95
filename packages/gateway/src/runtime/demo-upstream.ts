import { createServer, type IncomingMessage, type Server } from 'node:http';
import { listenOn } from './listen.ts';

/** A backend for those who have none yet: it answers with what it was asked. */
export interface DemoUpstream {
  readonly origin: string;
  close(): void;
}

const MAX_COUNTED_BODY_BYTES = 1_048_576;

export async function startDemoUpstream(): Promise<DemoUpstream> {
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
  const { port } = await listenOn(server, '127.0.0.1:0');
  return {
    origin: `http://127.0.0.1:${port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function seen({ method, url, headers }: IncomingMessage, bodyBytes: number, served: number): object {
  return {
    message: 'Hello from the demo behind the gateway. Set backend.url to see your own service here.',
    requestNumber: served,
    saw: { method, url, bodyBytes, headers },
  };
}

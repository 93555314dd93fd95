import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { Config } from '../config/config.ts';
import { hasBackend } from '../config/load-config.ts';
import type { Log } from '../telemetry/log.ts';
import { listenOn } from './listen.ts';

const MAX_COUNTED_BODY_BYTES = 1_048_576;

/** A backend for those who have none yet: it answers with what it was asked. It has no port until it is needed. */
export class DemoService {
  private server: Server | undefined;
  private opened: Promise<string> | undefined;

  /** Where it listens, from now on. */
  async open(): Promise<string> {
    this.server ??= demoServer();
    this.opened ??= listenOn(this.server, '127.0.0.1:0').then(({ port }) => `http://127.0.0.1:${port}`);
    return this.opened;
  }

  close(): void {
    this.server?.close();
    this.server?.closeAllConnections();
  }
}

/** Somebody wrote a configuration, and it names no service. */
export function warnWithoutBackend(config: Config, log: Log): void {
  if (hasBackend(config)) return;
  log.warn({}, 'no backend is configured: a built-in demonstration answers. Set backend.url');
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

// A whole gateway in the process of the test: a configuration as a file has it, real sockets on both sides.
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { onTestFinished } from 'vitest';
import { loadConfig, type LoadedConfig } from '../../src/config/load-config.ts';
import type { ReloadResult } from '../../src/admin/control.ts';
import type { Gateway } from '../../src/runtime/gateway.ts';
import { startGateway } from '../../src/runtime/start-gateway.ts';
import { createLogger } from '../../src/telemetry/logger.ts';

export interface HeardResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface SentRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string;
}

export interface RunningGateway {
  readonly gateway: Gateway;
  readonly port: number;
  readonly adminPort: number;
  /** Lines of its log so far. */
  readonly log: readonly string[];
  readonly ask: (path?: string, sent?: SentRequest) => Promise<HeardResponse>;
  readonly askAdmin: (path: string, sent?: SentRequest) => Promise<HeardResponse>;
  readonly reload: (yaml: string) => Promise<ReloadResult>;
}

/** Listens on free ports, whatever the configuration says; ends with the test. */
export async function runGateway(
  yaml: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<RunningGateway> {
  let text = yaml;
  const readConfig = (): LoadedConfig =>
    loadConfig({
      file: { path: 'spillgate.yaml', text },
      env: { SPILLGATE_SERVER_ADDRESS: '127.0.0.1:0', SPILLGATE_ADMIN_ADDRESS: '127.0.0.1:0', ...variables },
    });
  const loaded = readConfig();
  if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join('\n'));
  const log: string[] = [];
  const logger = createLogger({
    config: loaded.config.logging,
    output: (bytes, done) => {
      log.push(Buffer.from(bytes).toString());
      done(null, bytes.length);
    },
  });
  const gateway = await startGateway({ readConfig, logger, version: '1.2.3' });
  onTestFinished(async () => {
    await (gateway as Gateway & { close(): Promise<void> }).close();
  });
  const { port } = gateway.address();
  const adminPort = gateway.adminAddress()?.port ?? 0;
  return {
    gateway,
    port,
    adminPort,
    log,
    ask: async (path = '/', sent = {}) => ask(port, path, sent),
    askAdmin: async (path, sent = {}) => ask(adminPort, path, sent),
    reload: async (next) => {
      text = next;
      return gateway.reload();
    },
  };
}

/** One request on a connection of its own. */
async function ask(port: number, path: string, sent: SentRequest = {}): Promise<HeardResponse> {
  const { method = 'GET', headers = {}, body } = sent;
  return new Promise((resolve, reject) => {
    const asking = httpRequest({
      port,
      host: '127.0.0.1',
      path,
      method,
      headers: { connection: 'close', ...headers } as Record<string, string>,
    });
    asking.once('error', reject);
    asking.once('response', (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (text += chunk));
      response.once('error', reject);
      response.once('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
      );
    });
    asking.end(body);
  });
}

// What a worker does when the primary process, which has waited for load balancers, tells it to end.
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { loadConfig, type LoadedConfig } from '../../src/config/load-config.ts';
import type { Gateway } from '../../src/runtime/gateway.ts';
import { startGateway } from '../../src/runtime/start-gateway.ts';
import { createLogger } from '../../src/telemetry/logger.ts';

const TEXT = `
server: { address: "127.0.0.1:0", drain_delay: 10m }
backend: { url: "http://127.0.0.1:1" }
`;

async function startWorker(): Promise<Gateway> {
  const readConfig = (): LoadedConfig => loadConfig({ file: { path: 'a.yaml', text: TEXT } });
  const loaded = readConfig();
  if (!loaded.ok) throw new Error('the configuration is invalid');
  const logger = createLogger({ config: { ...loaded.config.logging, level: 'error' } });
  return startGateway({ readConfig, logger, version: '1.2.3', worker: true });
}

async function connects(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

test('it closes the port before it drains, and does not wait a second time', async () => {
  const worker = await startWorker();
  const { port } = worker.address();
  const before = await connects(port);

  await worker.closePort();
  const behind = await connects(port);
  await worker.drain();

  expect([before, behind]).toEqual([true, false]);
});

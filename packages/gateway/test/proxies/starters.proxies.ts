// The files that `spillgate init --for` writes, run with the commands that it names: only the ports are moved.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { GatewayProcess } from '../e2e/gateway-process.ts';
import {
  askProxy,
  ENVOY,
  freePort,
  placed,
  startCountingBackend,
  startProxyProcess,
  type CountingBackend,
} from './proxy-rig.ts';

const PROGRAM = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const run = promisify(execFile);

interface StarterRig {
  readonly folder: string;
  /** What was said about what to do next. */
  readonly said: string;
  readonly port: number;
  readonly backend: CountingBackend;
}

/** Writes the files, moves their ports, and serves the decisions of `spillgate.yaml`. */
async function started(kind: string, proxyFile: string): Promise<StarterRig> {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-starter-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const { stdout } = await run(process.execPath, [PROGRAM, 'init', '--for', kind], { cwd: folder });
  const config = readFileSync(join(folder, 'spillgate.yaml'), 'utf8');
  const service = await GatewayProcess.start(
    config.replaceAll(/address: "127\.0\.0\.1:(?:8081|9090)"/g, 'address: "127.0.0.1:0"'),
    'serve',
  );
  onTestFinished(async () => service.remove());
  const backend = await startCountingBackend();
  const port = await freePort();
  const file = join(folder, proxyFile);
  const ports = { proxy: port, service: service.servicePort, backend: backend.port };
  writeFileSync(file, placed(readFileSync(file, 'utf8'), ports));
  return { folder, said: stdout, port, backend };
}

test('nginx: five logins of a client, then none, and its refusals say when', async () => {
  const { folder, said, port, backend } = await started('nginx', 'nginx.conf');
  expect(said).toContain('nginx -p "$PWD" -c "$PWD/nginx.conf"');
  await startProxyProcess({
    program: 'nginx',
    args: ['-p', folder, '-c', join(folder, 'nginx.conf')],
    folder,
    port,
  });
  const logins = [];
  for (let at = 0; at < 6; at += 1) logins.push(await askProxy(port, '/Login/', {}, 'POST'));
  const page = await askProxy(port, '/page');

  expect(logins.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429]);
  expect(logins[5]?.headers['retry-after']).toMatch(/^\d+$/);
  expect(logins[5]?.headers['ratelimit']).toMatch(/^"login";r=0;t=\d+$/);
  expect(page).toMatchObject({ status: 200, body: 'from the backend' });
  expect(backend.served()).toBe(6);
});

test('Envoy: five logins of a client, then none, and users are limited by their header', async () => {
  const { folder, said, port, backend } = await started('envoy', 'envoy.yaml');
  expect(said).toContain('envoy -c envoy.yaml');
  await startProxyProcess({
    program: ENVOY,
    // Several run beside each other here.
    args: ['-c', 'envoy.yaml', '--concurrency', '1', '--disable-hot-restart'],
    folder,
    port,
  });
  const logins = [];
  for (let at = 0; at < 6; at += 1) logins.push(await askProxy(port, '/login', {}, 'POST'));
  const page = await askProxy(port, '/page', { 'x-user': 'ann' });

  expect(logins.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429]);
  expect(logins[5]?.headers['x-envoy-ratelimited']).toBe('true');
  expect(logins[5]?.headers['retry-after']).toMatch(/^\d+$/);
  expect(page).toMatchObject({ status: 200, body: 'from the backend' });
  expect(page.headers['x-ratelimit-remaining']).toBe('49');
  expect(backend.served()).toBe(6);
});

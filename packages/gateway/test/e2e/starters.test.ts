// What `spillgate init --for` writes is accepted, runs, and does what its comments say.
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { GatewayProcess } from './gateway-process.ts';

const PROGRAM = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const ROOT = new URL('../../../../', import.meta.url);
const run = promisify(execFile);
const backend: Server = createServer((_, response) => response.end('hello'));

beforeAll(async () => {
  await listening(backend);
});

afterAll(() => {
  backend.closeAllConnections();
  backend.close();
});

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return portOf(server);
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

/** A folder with what was written, and a way to read it. */
async function written(
  kind: string,
): Promise<{ readonly folder: string; readonly read: (name: string) => string }> {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-starter-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  await run(process.execPath, [PROGRAM, 'init', '--for', kind], { cwd: folder });
  return { folder, read: (name) => readFileSync(join(folder, name), 'utf8') };
}

/** The same configuration on ports that are free, in front of this backend. */
async function started(
  config: string,
  port: number,
  command: 'run' | 'serve' = 'run',
): Promise<GatewayProcess> {
  const moved = config
    .replace('address: ":8080"', 'address: "127.0.0.1:0"')
    .replaceAll(/address: "127\.0\.0\.1:(?:8081|9090)"/g, 'address: "127.0.0.1:0"')
    .replaceAll(/http:\/\/localhost:\d+/g, `http://127.0.0.1:${port}`);
  const gateway = await GatewayProcess.start(moved, command);
  onTestFinished(async () => gateway.remove());
  return gateway;
}

async function statuses(times: number, ask: () => Promise<Response>): Promise<number[]> {
  const all: number[] = [];
  for (let at = 0; at < times; at += 1) {
    const response = await ask();
    await response.arrayBuffer();
    all.push(response.status);
  }
  return all;
}

test.each(['express', 'nginx', 'envoy', 'llm'])(
  '%s is accepted as it is, and never replaced',
  async (kind) => {
    const { folder, read } = await written(kind);
    const config = read('spillgate.yaml');

    const { stdout } = await run(process.execPath, [PROGRAM, 'check', 'spillgate.yaml'], { cwd: folder });
    const again = run(process.execPath, [PROGRAM, 'init', '--for', kind], { cwd: folder });

    expect(stdout).toBe('spillgate.yaml is valid.\n');
    expect(config).toMatch(/^# yaml-language-server: \$schema=spillgate\.schema\.json\n/);
    expect(config).not.toContain('@FILE@');
    await expect(again).rejects.toThrow('exists already');
  },
);

test('what it is for has to be something that it knows', async () => {
  const asked = run(process.execPath, [PROGRAM, 'init', '--for', 'apache'], { cwd: tmpdir() });

  await expect(asked).rejects.toThrow('--for is "apache"; expected one of express, nginx, envoy, llm.');
});

test('an application of Express behind the gateway knows its clients, and logins are limited', async () => {
  const { folder, read } = await written('express');
  symlinkSync(fileURLToPath(new URL('node_modules', ROOT)), join(folder, 'node_modules'));
  const reserved = createServer();
  const port = await listening(reserved);
  await new Promise((resolve) => {
    reserved.close(resolve);
  });
  const app = spawn(process.execPath, ['app.mjs'], {
    cwd: folder,
    env: { ...process.env, PORT: String(port) },
    stdio: 'inherit',
  });
  onTestFinished(() => void app.kill('SIGKILL'));
  const gateway = await started(read('spillgate.yaml'), port);

  await expect.poll(async () => (await fetch(`${gateway.url}/`)).status).toBe(200);
  expect(await (await fetch(`${gateway.url}/`)).json()).toEqual({ hello: '127.0.0.1' });
  expect(await statuses(6, async () => fetch(`${gateway.url}/Login/`, { method: 'POST' }))).toEqual([
    200, 200, 200, 200, 200, 429,
  ]);
});

test('an API of models gets so many calls of a key, which the log never shows', async () => {
  const { read } = await written('llm');
  const gateway = await started(read('spillgate.yaml'), portOf(backend));
  const call = async (): Promise<Response> =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer sk-of-ann' },
    });

  const all = await statuses(30, call);

  expect(all.slice(0, 20)).toEqual(Array<number>(20).fill(200));
  expect(all.at(-1)).toBe(429);
  expect(JSON.stringify(gateway.lines)).not.toContain('sk-of-ann');
});

describe('what a proxy gets is what test:proxies runs', () => {
  test('nginx: the section of the document, and a service that answers it', async () => {
    const { read } = await written('nginx');
    const documented = /```nginx\n(.*?)```/s.exec(documentOf('nginx'))?.[1] ?? 'none';
    const gateway = await started(read('spillgate.yaml'), 1, 'serve');

    const asked = await statuses(6, async () =>
      fetch(`http://127.0.0.1:${gateway.servicePort}/v1/forward-auth/denied_status=403`, {
        headers: {
          'x-forwarded-method': 'POST',
          'x-forwarded-uri': '/login',
          'x-forwarded-for': '203.0.113.9',
        },
      }),
    );

    expect(unindented(read('nginx.conf'))).toContain(unindented(documented));
    expect(asked).toEqual([200, 200, 200, 200, 200, 403]);
  });

  test('envoy: the configuration of the document, and a service that starts', async () => {
    const { read } = await written('envoy');
    const documented = /```yaml envoy-rls\n(.*?)```/s.exec(documentOf('envoy'))?.[1] ?? 'none';
    const gateway = await started(read('spillgate.yaml'), 1, 'serve');

    expect(read('envoy.yaml')).toContain(documented);
    expect(gateway.servicePort).toBeGreaterThan(0);
  });
});

function documentOf(name: string): string {
  return readFileSync(new URL(`docs/proxies/${name}.md`, ROOT), 'utf8');
}

function unindented(text: string): string {
  return text.replaceAll(/^ +/gm, '');
}

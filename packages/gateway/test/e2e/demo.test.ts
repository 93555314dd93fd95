// What a newcomer sees: no file, one command, and lines to try.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, expect, test } from 'vitest';

const PROGRAM = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'spillgate demo-'));
let gateway: ChildProcess | undefined;

afterAll(() => rmSync(folder, { recursive: true }));

afterEach(stop);

async function stop(): Promise<void> {
  if (gateway === undefined || gateway.exitCode !== null) return;
  const ended = new Promise((resolve) => gateway?.once('exit', resolve));
  gateway.kill('SIGKILL');
  await ended;
}

/** What it prints until it invites to try something. */
async function start(address = '127.0.0.1:0'): Promise<string> {
  const child = spawn(process.execPath, [PROGRAM, 'run'], {
    cwd: folder,
    env: {
      PATH: process.env['PATH'] ?? '',
      SPILLGATE_SERVER_ADDRESS: address,
      SPILLGATE_ADMIN_ADDRESS: '127.0.0.1:0',
    },
  });
  gateway = child;
  let output = '';
  child.stdout.setEncoding('utf8');
  for await (const text of child.stdout) {
    output += String(text);
    if (output.includes('Ctrl+C')) break;
  }
  return output;
}

test('without a configuration it shows itself, and every line to try works as it is printed', async () => {
  const output = await start();
  const commands = [...output.matchAll(/^ {4}((?:curl|for) .*?) *# /gm)].map(([, command]) => command ?? '');

  const answers: string[] = [];
  for (const command of commands) answers.push((await run('sh', ['-c', command])).stdout);

  expect(answers).toHaveLength(3);
  expect(answers[0]).toMatch(/^HTTP\/1\.1 200 OK\r\n(?:.*\r\n)*RateLimit: "default";r=4/);
  expect(answers[0]).toContain('Hello from the demo behind the gateway.');
  expect(answers[1]).toMatch(/^(?:200\n){4,5}(?:429\n){3,4}$/);
  expect(answers[2]).toMatch(/^HTTP\/1\.1 429 .*\r\n(?:.*\r\n)*Retry-After: \d+\r\n/);
});

test('it says on which addresses it listens', async () => {
  expect(await start(':0')).toMatch(
    /http:\/\/localhost:(\d+) .*\n.*\n.*port \1 on all addresses of this machine/,
  );
  await stop();

  const output = await start();

  expect(output).toMatch(/Gateway {4}http:\/\/127\.0\.0\.1:\d+ /);
  expect(output).not.toContain('every address');
});

test('the way to an own service works as it is printed, and a file that is not used is named', async () => {
  const [, init = ''] = /^ {4}(node .* init) *# writes spillgate\.yaml/m.exec(await start()) ?? [];
  await stop();

  const { stdout } = await run('sh', ['-c', init], { cwd: folder });
  const output = await start();

  expect(stdout).toMatch(/^Wrote spillgate\.yaml, and spillgate\.schema\.json for your editor\./);
  expect(output).toMatch(/spillgate\.yaml exists but is not used: .*\n {4}node .* run spillgate\.yaml\n/);
  expect(output).not.toContain(' init');
});

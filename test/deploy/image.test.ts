import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { run } from '../../scripts/command.ts';
import { buildWithoutDocker, copyContext, type BuiltImage } from './dockerfile.ts';

const folder = mkdtempSync(join(tmpdir(), 'spillgate-image-'));
let image: BuiltImage;
let program = '';

beforeAll(async () => {
  const context = join(folder, 'context');
  copyContext('.', 'packages/gateway/Dockerfile.dockerignore', context);
  image = await buildWithoutDocker('packages/gateway/Dockerfile', context, join(folder, 'stages'));
  const linked = image.instructions.find(({ rest }) => rest.startsWith('ln -s '))?.rest.split(' ')[2] ?? '';
  program = join(image.folder, linked);
}, 600_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('every path that the Dockerfile names is there, and its program starts', async () => {
  writeFileSync(
    join(folder, 'spillgate.yaml'),
    'server: { address: "127.0.0.1:0" }\nadmin: { address: "127.0.0.1:0" }\nbackend: { url: "http://127.0.0.1:9" }\n' +
      // What a start with Redis loads has to be in the image too, even if nobody answers.
      'redis: { endpoints: ["127.0.0.1:9"], dial_timeout: 100ms }\nrate_limit: { average: 10 }\n',
  );

  const child = spawn(process.execPath, [program, 'run', '--config', join(folder, 'spillgate.yaml')]);
  const messages: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    messages.push(line);
    if (line.includes('the gateway is ready')) break;
  }
  child.kill('SIGTERM');
  const [code] = await once(child, 'exit');

  expect(messages.at(-1)).toContain('the gateway is ready');
  expect(code).toBe(0);
});

test('the image has neither sources nor tools', () => {
  const files = readdirSync(image.folder, { recursive: true, encoding: 'utf8' });

  expect(files.filter((path) => /\.(?:ts|map)$/.test(path))).toEqual([]);
  expect(files.filter((path) => /node_modules\/(?:typescript|vitest|oxlint|@nestjs)\//.test(path))).toEqual(
    [],
  );
});

test('its health check is a command of the program', async () => {
  const check = image.instructions.find(({ word }) => word === 'HEALTHCHECK')?.rest ?? '';

  const { exitCode } = await run(process.execPath, [program, 'health', '--help']);

  expect(check).toContain('CMD ["spillgate", "health"]');
  expect(exitCode).toBe(0);
});

// The clients of the documents, in their own languages.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { startTestService } from '../service/running-service.ts';
import { documented, folderWith, patient, PYTHON_PACKAGES } from './proxy-rig.ts';

const run = promisify(execFile);
const PREPARATION = readFileSync(new URL('../../../../scripts/prepare-system.sh', import.meta.url), 'utf8');

const CLIENTS = [
  { language: 'go', file: 'check.go', command: ['go', 'run'] },
  { language: 'python', file: 'check.py', command: ['python3'] },
  { language: 'java', file: 'Check.java', command: ['java'] },
] as const;

test.each(CLIENTS)(
  'the client in $language is admitted once, and then refused',
  async ({ language, file, command }) => {
    const service = await startTestService(
      'rate_limit: { policies: { api: { algorithm: fixedWindow, quota: 1, window: 1d } } }',
    );
    const folder = folderWith({ [file]: patient(documented('service-clients.md', language)) });
    const [program, ...args] = command;
    const ask = async (): Promise<string> => {
      const { stdout } = await run(program, [
        ...args,
        join(folder, file),
        `http://127.0.0.1:${service.port}`,
        'api',
        'ann',
      ]);
      return firstWord({ stdout });
    };

    expect([await ask(), await ask()]).toEqual(['true', 'false']);
  },
  180_000,
);

const DESCRIPTORS = `
rate_limit: { policies: { per-user: { algorithm: fixedWindow, quota: 1, window: 1d } } }
service: { rls: { descriptors: [{ domain: shop, entries: [{ key: user }], policies: [per-user] }] } }
`;

describe("Envoy's rate limit service", () => {
  test('the client in Go is admitted once, and then refused', async () => {
    const { port } = await startTestService(DESCRIPTORS);
    const cwd = folderWith({ 'rls.go': patient(documented('service-clients.md', 'go rls')) });
    await run('sh', ['-e', '-c', documented('service-clients.md', 'text go-packages')], { cwd });
    await run('go', ['build', '-o', 'rls', '.'], { cwd });

    const asked = [`127.0.0.1:${port}`, 'shop', 'user', 'ann'];
    const outputs = [await run('./rls', asked, { cwd }), await run('./rls', asked, { cwd })];

    expect(outputs.map(firstWord)).toEqual(['true', 'false']);
  }, 600_000);

  test('the client in Python is admitted once, and then refused', async () => {
    const { port } = await startTestService(DESCRIPTORS);
    const folder = folderWith({ 'rls.py': patient(documented('service-clients.md', 'python rls')) });
    const env = { ...process.env, PYTHONPATH: PYTHON_PACKAGES };

    const asked = [join(folder, 'rls.py'), `127.0.0.1:${port}`, 'shop', 'user', 'ann'];
    const outputs = [await run('python3', asked, { env }), await run('python3', asked, { env })];

    expect(outputs.map(firstWord)).toEqual(['true', 'false']);
  }, 180_000);

  test('the packages for Python are those that the tests have', () => {
    const packages = documented('service-clients.md', 'text python-packages');

    expect(PREPARATION).toContain(`PYTHON_GRPC=${/grpcio==(\S+)/.exec(packages)?.[1]}\n`);
    expect(PREPARATION).toContain('"grpcio==$PYTHON_GRPC" "xds-protos==$PYTHON_GRPC"');
  });
});

function firstWord({ stdout }: { readonly stdout: string }): string {
  return stdout.split(/\s/)[0] ?? '';
}

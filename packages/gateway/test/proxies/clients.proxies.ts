// The clients of the documents, in their own languages.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { startTestService } from '../service/running-service.ts';
import { documented, folderWith, patient } from './proxy-rig.ts';

const run = promisify(execFile);

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
      return stdout.split(/\s/)[0] ?? '';
    };

    expect([await ask(), await ask()]).toEqual(['true', 'false']);
  },
  180_000,
);

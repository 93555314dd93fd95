// `spillgate run` on a host that is not the process: what it does about signals and crashes.
import { afterEach, expect, test } from 'vitest';
import type { ExitCode, Host, Signal } from '../../src/cli/host.ts';
import { run } from '../../src/cli/run.ts';

const exits: ExitCode[] = [];
const listeners = new Map<Signal, () => void>();
let crash: (error: unknown) => void = () => undefined;
let output = '';

afterEach(() => {
  exits.length = 0;
  listeners.clear();
  output = '';
});

function host(env: Readonly<Record<string, string>> = {}): Host {
  return {
    program: 'node main.js',
    env: {
      SPILLGATE_SERVER_ADDRESS: '127.0.0.1:0',
      SPILLGATE_ADMIN_ADDRESS: '127.0.0.1:0',
      SPILLGATE_LOGGING_LEVEL: 'error',
      ...env,
    },
    write: (text) => {
      output += text;
    },
    writeError: (text) => {
      output += text;
    },
    readFile: () => {
      throw Object.assign(new Error('no such file'), { code: 'ENOENT' });
    },
    writeFile: () => undefined,
    outputIsTerminal: false,
    errorIsTerminal: false,
    onSignal: (signal, listener) => listeners.set(signal, listener),
    onCrash: (listener) => {
      crash = listener;
    },
    exit: (exitCode) => exits.push(exitCode),
  };
}

async function ready(): Promise<void> {
  await expect.poll(() => output, { timeout: 20_000 }).toContain('Ctrl+C');
}

test('an error that nobody caught is logged and ends it with 1; signals end it with 0, and at the second one with 1 at once', async () => {
  const running = run(host({ SPILLGATE_LOGGING_LEVEL: 'error' }), {}, '1.2.3');
  await ready();

  crash(new Error('planted'));
  await expect.poll(() => exits).toEqual([1]);
  listeners.get('SIGTERM')?.();
  listeners.get('SIGINT')?.();

  expect(await running).toBe(0);
  expect(exits).toEqual([1, 1, 0]);
  expect(output).toContain('Spillgate 1.2.3');
});

test('a file that cannot be read is a problem with a place and a way out', async () => {
  expect(await run(host(), { config: 'gone.yaml' }, '1.2.3')).toBe(1);
  expect(output).toBe(
    'gone.yaml:1:1: error: the file does not exist. Name another, or write a starter file with: node main.js init.\nThe gateway does not start: gone.yaml cannot be used.\n',
  );
});

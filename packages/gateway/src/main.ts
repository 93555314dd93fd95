#!/usr/bin/env node
// The only file that touches `process`.
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { EXIT, fileReader, programName } from './cli/host.ts';
import { runCommandLine } from './cli/program.ts';

// Most of what a proxy allocates is dead when young objects are collected: waking threads to look at the rest takes
// more processor time than looking at it, about a twentieth of all. With a worker per core there is no idle core to do
// it on, either.
setFlagsFromString('--no-parallel-scavenge');

// `spillgate schema | head` closes the pipe early, and a disk may be full: neither is a reason for a stack trace.
process.stderr.on('error', () => undefined);
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
  if (code === 'EPIPE') return;
  process.stderr.write(`cannot write to standard output (${code ?? 'unknown error'}).\n`);
  process.exitCode = EXIT.usage;
});

const exitCode = await runCommandLine(
  process.argv.slice(2),
  {
    program: programName(process.argv[1] ?? '', process.cwd()),
    env: process.env,
    write: (text) => process.stdout.write(text),
    writeError: (text) => process.stderr.write(text),
    readFile: fileReader({
      read: (path) => readFileSync(path, 'utf8'),
      isRegular: (path) => statSync(path).isFile(),
    }),
    writeFile: (path, text, replace) => {
      writeFileSync(path, text, { flag: replace ? 'w' : 'wx' });
    },
    outputIsTerminal: process.stdout.isTTY,
    errorIsTerminal: process.stderr.isTTY,
    onSignal: (signal, listener) => {
      process.on(signal, listener);
    },
    onCrash: (listener) => {
      process.on('uncaughtException', listener);
      process.on('unhandledRejection', listener);
    },
    exit: (code) => process.exit(code),
  },
  readVersion(),
);
// What could not be written is known before this.
process.exitCode ??= exitCode;

/** Of the package, as it is published. */
function readVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const version: unknown =
    typeof manifest === 'object' && manifest !== null && 'version' in manifest ? manifest.version : undefined;
  return typeof version === 'string' ? version : 'unknown';
}

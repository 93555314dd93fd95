#!/usr/bin/env node
// The only file that touches `process`.
import { readFileSync, writeFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { programName } from './cli/host.ts';
import { runCommandLine } from './cli/program.ts';
import { VERSION } from './version.ts';

// Most of what a proxy allocates is dead when young objects are collected: waking threads to look at the rest takes more processor time than
// looking at it, about a twentieth of all. With a worker per core there is no idle core to do it on, either.
setFlagsFromString('--no-parallel-scavenge');

// `spillgate schema | head` closes the pipe early; that is no reason for a stack trace.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

process.exitCode = await runCommandLine(
  process.argv.slice(2),
  {
    program: programName(process.argv[1] ?? '', process.cwd()),
    env: process.env,
    write: (text) => process.stdout.write(text),
    writeError: (text) => process.stderr.write(text),
    readFile: (path) => readFileSync(path, 'utf8'),
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
    exit: (exitCode) => process.exit(exitCode),
  },
  VERSION,
);

// The unit that docs/deployment.md tells people to install: systemd understands every line, and so does the program.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { run } from '../../scripts/command.ts';
import { loadConfig } from '#gateway/index.js';

const UNIT = 'packages/gateway/spillgate.service';
const PROGRAM = 'packages/gateway/dist/main.js';
const text = readFileSync(UNIT, 'utf8');

function settings(name: string): readonly string[] {
  return [...text.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value);
}

/** What systemd has to say about a unit; nothing is best. It only ignores what it does not understand. */
async function complaints(unit: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-unit-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'spillgate.service');
  writeFileSync(file, unit);
  const { exitCode, output } = await run('systemd-analyze', ['verify', '--man=no', file]);
  return exitCode === 0 ? output.replaceAll(`${folder}/`, '') : `exit code ${exitCode}: ${output}`;
}

test('systemd understands the unit, every line of it', async () => {
  expect(await complaints(text)).toBe('');
});

test.each([
  ['a setting that does not exist', 'KillMode=mixed', 'KillMod=mixed', "Unknown key 'KillMod'"],
  ['a program that is not there', '/bin/kill', '/bin/no-such-program', '/bin/no-such-program'],
])('and would complain about %s', async (_, line, broken, complaint) => {
  expect(text).toContain(line);

  expect(await complaints(text.replace(line, broken))).toContain(complaint);
});

test('the commands that it starts, and their options, are those of the program', async () => {
  const commands = [...settings('ExecStartPre'), ...settings('ExecStart')].map((line) => line.split(' '));
  const file = '/etc/spillgate/spillgate.yaml';

  expect(commands).toEqual([
    ['/usr/bin/env', 'spillgate', 'check', file],
    ['/usr/bin/env', 'spillgate', 'run', '--config', file],
  ]);
  // That the file is not there is told only by a command that knows what it was given.
  for (const [, , ...args] of commands) {
    const { output } = await run(process.execPath, [PROGRAM, ...args]);
    expect(output).toMatch(/^\/etc\/spillgate\/spillgate\.yaml(?::1:1: error: the file)? does not exist\b/);
  }
});

test('systemd waits longer than requests may take to end', () => {
  const [seconds] = settings('TimeoutStopSec').map((value) => Number(/^(\d+)s$/.exec(value)?.[1]));
  const loaded = loadConfig({
    file: { path: 'spillgate.yaml', text: 'backend: { url: "http://127.0.0.1:9" }\n' },
  });
  if (!loaded.ok) throw new Error('not a configuration');

  expect((seconds ?? 0) * 1000).toBeGreaterThan(loaded.config.server.drain_timeout);
});

test('nothing may be done that a gateway never does', async () => {
  const { output } = await run('systemd-analyze', ['security', '--offline=true', '--no-pager', UNIT]);
  const exposure = Number(/Overall exposure level for \S+: ([\d.]+)/.exec(output)?.[1] ?? 10);

  // Of 10; a unit without any of its restrictions has 9.6.
  expect(exposure).toBeLessThan(2);
});

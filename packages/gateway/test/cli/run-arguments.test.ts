import { describe, expect, test } from 'vitest';
import { programName } from '../../src/cli/host.ts';
import { spillgate } from './terminal.ts';

describe('spillgate run', () => {
  test.each([[['broken.yaml']], [['--config', 'broken.yaml']]])('%j names the file', async (args) => {
    const { exitCode, stderr } = await spillgate(['run', ...args], {
      files: { 'broken.yaml': 'server: 1\n' },
    });

    expect(exitCode).toBe(1);
    expect(stderr).toContain('broken.yaml:1:9: error: ');
  });

  test('a file that is named twice is wrong usage', async () => {
    const { exitCode, stderr } = await spillgate(['run', 'a.yaml', '--config', 'b.yaml']);

    expect(exitCode).toBe(2);
    expect(stderr).toContain('the file is named twice, as a.yaml and with --config b.yaml; name it once');
  });
});

test.each([[['nope']], [['help', 'nope']], [['nope', '--help']]])(
  '%j: a command that does not exist is named, and is wrong usage',
  async (args) => {
    const { exitCode, stderr } = await spillgate(args);

    expect(stderr).toContain("unknown command 'nope'");
    expect(exitCode).toBe(2);
  },
);

test('help of a command is its help', async () => {
  const { exitCode, stdout } = await spillgate(['help', 'check']);

  expect(stdout).toContain('Usage: spillgate check');
  expect(exitCode).toBe(0);
});

test.each([
  ['/usr/local/bin/spillgate', '/srv/ann', 'spillgate'],
  ['/srv/ann/clone/packages/gateway/dist/main.js', '/srv/ann/clone', 'node packages/gateway/dist/main.js'],
  ['/opt/main.js', '/srv/ann/clone', 'node /opt/main.js'],
  ["/srv/ann's files/main.js", '/opt/a/b/c/d/e', String.raw`node '/srv/ann'\''s files/main.js'`],
])('the program %s is called in %s as %s', (path, folder, name) => {
  expect(programName(path, folder)).toBe(name);
});

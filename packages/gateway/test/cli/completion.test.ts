import { describe, expect, test } from 'vitest';
import { spillgate } from './terminal.ts';

describe('completion', () => {
  test('offers files only where a file is wanted', async () => {
    const { stdout } = await spillgate(['completion', 'bash']);
    const lines = stdout.split('\n');

    const caseOf = (command: string) =>
      lines.find((line) => /^ *([\w|-]+)\)/.exec(line)?.[1]?.split('|').includes(command));
    expect(caseOf('check')).toContain('compgen -f');
    expect(caseOf('run')).toContain('compgen -f');
    expect(caseOf('config')).toContain('compgen -f');
    expect(caseOf('simulate')).toContain('compgen -f');
    expect(caseOf('suggest')).toContain('compgen -f');
    expect(caseOf('--config')).toContain('compgen -f');
    expect(caseOf('--against')).toContain('compgen -f');
    for (const command of ['peek', 'forget', 'override', 'health', 'bench', 'schema']) {
      expect(caseOf(command)).toBeDefined();
      expect(caseOf(command)).not.toContain('compgen -f');
    }
    expect(caseOf('override')).toContain('--max-delay');
  });

  test('knows which options take a value', async () => {
    const zsh = (await spillgate(['completion', 'zsh'])).stdout;
    const fish = (await spillgate(['completion', 'fish'])).stdout;

    expect(zsh).toMatch(/'--admin\[[^\]]*\]:value:'/);
    expect(zsh).toMatch(/'--config\[[^\]]*\]:value:_files'/);
    expect(zsh).toMatch(/'--deep\[[^\]]*\]'/);
    expect(fish).toMatch(/from peek' -l admin -r -d/);
    expect(fish).toMatch(/from health' -l deep -d/);
    expect(fish).toMatch(/from peek' -l config -r -F -d/);
    expect(fish).toContain("from peek' -f\n");
  });
});

describe('help', () => {
  test('of every command has examples, and each begins with a command that exists', async () => {
    const { stdout: overview } = await spillgate(['--help']);
    const commands = [...overview.matchAll(/^ {2}(\w+) .*$/gm)].flatMap(([line, name = '']) =>
      line.startsWith('  spillgate') || line.startsWith('  source') || name === 'help' ? [] : [name],
    );

    expect(commands).toEqual(
      expect.arrayContaining(['run', 'check', 'config', 'init', 'schema', 'completion', 'peek', 'forget']),
    );
    for (const command of commands) {
      const { exitCode, stdout } = await spillgate([command, '--help']);
      expect([command, exitCode]).toEqual([command, 0]);
      expect(stdout).toMatch(new RegExp(`^Examples:\\n(?:  .*\\n)*  .*spillgate ${command}\\b`, 'm'));
    }
  });

  test.each(['peek', 'forget', 'override'])('of %s names what it takes', async (command) => {
    const { stdout } = await spillgate([command, '--help']);

    expect(stdout).toMatch(new RegExp(`^Usage: spillgate ${command} \\[options\\] \\[policy\\] <key>$`, 'm'));
    expect(stdout).toMatch(
      /^Arguments:\n {2}policy +the policy; not needed if there is only one\n {2}key +\S/m,
    );
    expect(stdout).not.toContain('words');
    expect(await spillgate([command])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining("missing required argument 'key'"),
    });
  });
});

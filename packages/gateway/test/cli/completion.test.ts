import { describe, expect, test } from 'vitest';
import { spillgate } from './terminal.ts';

describe('completion', () => {
  test('offers files only where a file is wanted', async () => {
    const { stdout } = await spillgate(['completion', 'bash']);
    const lines = stdout.split('\n');

    const caseOf = (command: string) => lines.find((line) => line.trim().startsWith(`${command})`));
    expect(caseOf('check')).toContain('compgen -f');
    expect(caseOf('run')).toContain('compgen -f');
    expect(caseOf('--config')).toContain('compgen -f');
    for (const command of ['config', 'peek', 'forget', 'override', 'health', 'bench', 'schema']) {
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

  test('every command has help with an example, or needs none', async () => {
    for (const command of ['peek', 'forget', 'override', 'health', 'bench']) {
      const { exitCode, stdout } = await spillgate([command, '--help']);
      expect(exitCode).toBe(0);
      expect(stdout).toMatch(new RegExp(`Examples?:\\n  spillgate ${command}`));
    }
  });
});

import { defineConfig, type ViteUserConfig } from 'vitest/config';
import { CountReporter } from './scripts/count-reporter.ts';

const GUARDS = 'scripts/guards.test.ts';
const NOT_SOURCES = ['**/node_modules/**', '**/build/**', '**/dist/**'];

const config: ViteUserConfig = defineConfig({
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: 'tests',
          include: [
            'packages/*/{src,test}/**/*.test.ts',
            'scripts/**/*.test.ts',
            'test/**/*.test.ts',
            'examples/**/*.test.ts',
            'bench/**/*.test.ts',
          ],
          exclude: [...NOT_SOURCES, GUARDS],
        },
      },
      // Slow, because every tool starts several times; they only change when the tooling does.
      { extends: true, test: { name: 'guards', include: [GUARDS], exclude: NOT_SOURCES } },
    ],
    reporters: ['default', new CountReporter()],
    // A test without an assertion, or a run that quietly found no test, must not count as passed.
    expect: { requireAssertions: true },
    passWithNoTests: false,
    // A test that hangs has to fail; a machine that is busy with something else must not make one fail.
    testTimeout: 30_000,
    hookTimeout: 30_000,
    allowOnly: false,
    restoreMocks: true,
  },
});

export default config;

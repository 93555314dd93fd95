import { availableParallelism } from 'node:os';
import { defineConfig, type ViteUserConfig } from 'vitest/config';
import { CountReporter } from './scripts/count-reporter.ts';
import { needingOwnProcess } from './scripts/own-process.ts';
import { PATIENCE_MS } from './test/patience.ts';

const GUARDS = 'scripts/guards.test.ts';
const DEPLOY = 'test/deploy/*.test.ts';
const NOT_SOURCES = ['**/node_modules/**', '**/build/**', '**/dist/**'];
/** They start programs, or read the whole repository: what they import is little beside that. */
const PROGRAMS = ['packages/gateway/test/e2e/*.test.ts', 'packages/gateway/test/*.test.ts'];
const OWN_PROCESS = needingOwnProcess(import.meta.dirname);
// Much of a test's time is waiting for a server, so four run at once also where there are only two cores.
const TEST_WORKERS = Math.max(4, availableParallelism() - 1);

const config: ViteUserConfig = defineConfig({
  test: {
    projects: [
      // A process per file. They come first: the longest are among them, and must not end alone.
      {
        extends: true,
        test: {
          name: 'tests',
          include: [
            ...PROGRAMS,
            ...OWN_PROCESS,
            'scripts/**/*.test.ts',
            'test/**/*.test.ts',
            'examples/**/*.test.ts',
            'bench/**/*.test.ts',
          ],
          exclude: [...NOT_SOURCES, GUARDS, DEPLOY],
          maxWorkers: TEST_WORKERS,
          sequence: { groupOrder: 0 },
        },
      },
      // One process for many files: most of them take less time than to load what they test.
      {
        extends: true,
        test: {
          name: 'tests-shared',
          include: ['packages/*/test/**/*.test.ts'],
          exclude: [...NOT_SOURCES, ...PROGRAMS, ...OWN_PROCESS],
          isolate: false,
          maxWorkers: TEST_WORKERS,
          sequence: { groupOrder: 0 },
        },
      },
      // They measure time, or take hours if they are let: only on demand.
      {
        extends: true,
        test: {
          name: 'soak',
          include: ['test/soak/*.soak.ts', 'packages/*/test/**/*.soak.ts'],
          exclude: NOT_SOURCES,
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
      // Faults at random for as long as one likes.
      {
        extends: true,
        test: {
          name: 'torture',
          include: ['test/torture/*.torture.ts'],
          exclude: NOT_SOURCES,
          maxWorkers: 1,
          sequence: { groupOrder: 6 },
        },
      },
      // They build an image without Docker, and helm from its source.
      {
        extends: true,
        test: {
          name: 'deploy',
          include: [DEPLOY],
          exclude: NOT_SOURCES,
          maxWorkers: 1,
          sequence: { groupOrder: 3 },
        },
      },
      // They start proxies and compilers that are not installed everywhere.
      {
        extends: true,
        test: {
          name: 'proxies',
          include: ['packages/gateway/test/proxies/*.proxies.ts'],
          exclude: NOT_SOURCES,
          maxWorkers: 1,
          sequence: { groupOrder: 5 },
        },
      },
      // They need a browser.
      {
        extends: true,
        test: {
          name: 'dashboard',
          include: ['packages/dashboard/test/*.browser.ts'],
          exclude: NOT_SOURCES,
          maxWorkers: 1,
          sequence: { groupOrder: 6 },
        },
      },
      // The pictures of the documents: only on demand.
      {
        extends: true,
        test: {
          name: 'screenshots',
          include: ['packages/dashboard/test/*.pictures.ts'],
          exclude: NOT_SOURCES,
          maxWorkers: 1,
          sequence: { groupOrder: 6 },
        },
      },
      // Slow, because every tool starts several times; they only change when the tooling does.
      {
        extends: true,
        test: { name: 'guards', include: [GUARDS], exclude: NOT_SOURCES, sequence: { groupOrder: 1 } },
      },
    ],
    reporters: ['default', new CountReporter()],
    // A test without an assertion, or a run that quietly found no test, must not count as passed.
    // What is waited for happens soon, or never: how soon is up to the machine.
    expect: { requireAssertions: true, poll: { timeout: PATIENCE_MS, interval: 10 } },
    passWithNoTests: false,
    // A test that hangs has to fail; a machine that is busy with something else must not make one fail.
    testTimeout: 2 * PATIENCE_MS,
    hookTimeout: 2 * PATIENCE_MS,
    allowOnly: false,
    restoreMocks: true,
  },
});

export default config;

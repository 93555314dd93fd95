import type { Reporter, TestModule } from 'vitest/node';

/** Ends a run with one plain line, `12 passed, 0 failed`, for readers that know no other format. */
export class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const passed = tests.filter((test) => test.result().state === 'passed').length;
    const notRun = tests.filter((test) => test.result().state !== 'passed').length;
    // A file that does not load has no tests to count, and a stray rejection belongs to none.
    const brokenFiles = modules.filter((module) => module.errors().length > 0).length;
    console.log(`\n${passed} passed, ${notRun + brokenFiles + unhandledErrors.length} failed`);
  }
}

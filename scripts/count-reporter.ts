import type { Reporter, TestCase, TestModule, Vitest } from 'vitest/node';

/** Ends a run with one plain line, `12 passed, 0 failed`, for readers that know no other format. */
export class CountReporter implements Reporter {
  private vitest: Vitest | undefined;

  onInit(vitest: Vitest): void {
    this.vitest = vitest;
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const wanted = this.vitest?.getGlobalTestNamePattern();
    const tests = modules
      .flatMap((module) => [...module.children.allTests()])
      .filter((test) => wanted === undefined || wanted.test(nameOf(test)));
    const passed = tests.filter((test) => test.result().state === 'passed').length;
    // A skipped test that nobody left out with `-t` has not passed.
    const notPassed = tests.length - passed;
    // A file that does not load has no tests to count, and a stray rejection belongs to none.
    const brokenFiles = modules.filter((module) => module.errors().length > 0).length;
    console.log(`\n${passed} passed, ${notPassed + brokenFiles + unhandledErrors.length} failed`);
  }
}

/** The name that `-t` is compared with: `fullName` has arrows in it. */
function nameOf(test: TestCase): string {
  const names = [test.name];
  for (let { parent } = test; parent.type === 'suite'; parent = parent.parent) names.unshift(parent.name);
  return names.join(' ');
}

import type { PlantedFile } from './sandbox.ts';

export interface PlantedLintError extends PlantedFile {
  /** As oxlint prints it. */
  readonly rule: string;
}

const FLOATING = 'async function later(): Promise<void> {}\nexport function f(): void { later(); }';

export const PLANTED_LINT_ERRORS: readonly PlantedLintError[] = [
  // One in every kind of place: type-aware rules depend on finding the TypeScript project of a file.
  ...[
    'packages/limiter/src/floating.ts',
    'packages/limiter/src/floating.test.ts',
    'packages/limiter/test/floating.test.ts',
    'scripts/floating.ts',
    'scripts/floating.test.ts',
    'examples/floating.ts',
    'bench/floating.ts',
  ].map((path) => ({ rule: 'typescript(no-floating-promises)', path, text: FLOATING })),
  {
    rule: 'typescript(no-misused-promises)',
    path: 'packages/limiter/src/misused.ts',
    text: "export function f(g: (h: () => void) => void): void { g(async () => { await Promise.resolve('a'); }); }",
  },
  {
    rule: 'typescript(switch-exhaustiveness-check)',
    path: 'packages/limiter/src/exhaustive.ts',
    text: 'export function f(a: 1 | 2): void { switch (a) { case 1: break; } }',
  },
  {
    rule: 'typescript(no-explicit-any)',
    path: 'packages/limiter/src/any.ts',
    text: 'export type A = any;',
  },
  {
    rule: 'typescript(no-non-null-assertion)',
    path: 'packages/limiter/src/non-null.ts',
    text: 'export function f(a: string | null): string { return a!; }',
  },
  {
    rule: 'typescript(no-unsafe-type-assertion)',
    path: 'packages/limiter/src/assertion.ts',
    text: 'export function f(a: unknown): string { return a as string; }',
  },
  {
    rule: 'typescript(no-unnecessary-condition)',
    path: 'packages/limiter/src/condition.ts',
    text: 'export function f(a: string): string { return a ?? "b"; }',
  },
  {
    rule: 'typescript(no-unsafe-return)',
    path: 'packages/limiter/src/unsafe.ts',
    text: 'export function f(a: string): string { return JSON.parse(a); }',
  },
  {
    rule: 'import(no-cycle)',
    path: 'packages/limiter/src/cycle-start.ts',
    text: "import { b } from './cycle-end.ts';\nexport function a(): void { b(); }",
  },
  {
    rule: 'import(no-cycle)',
    path: 'packages/limiter/src/cycle-end.ts',
    text: "import { a } from './cycle-start.ts';\nexport function b(): void { a(); }",
  },
  {
    rule: 'import(no-cycle)',
    path: 'packages/limiter/src/type-cycle-start.ts',
    text: "import type { B } from './type-cycle-end.ts';\nexport interface A { readonly b?: B }",
  },
  {
    rule: 'import(no-cycle)',
    path: 'packages/limiter/src/type-cycle-end.ts',
    text: "import type { A } from './type-cycle-start.ts';\nexport interface B { readonly a?: A }",
  },
  {
    rule: 'eslint(max-lines-per-function)',
    path: 'packages/limiter/src/long.ts',
    text: `export function f(): void {${'\n'.repeat(60)}}`,
  },
  {
    rule: 'eslint(max-lines)',
    path: 'packages/limiter/src/huge.ts',
    text: Array.from({ length: 401 }, (_, line) => `export const a${line} = ${line};`).join('\n'),
  },
  {
    rule: 'eslint(max-params)',
    path: 'packages/limiter/src/params.ts',
    text: 'export function f(a: number, b: number, c: number, d: number, e: number): number { return a + b + c + d + e; }',
  },
  {
    rule: 'eslint(no-restricted-globals)',
    path: 'packages/limiter/src/edge.ts',
    text: 'export function f(): string { return process.version; }',
  },
  { rule: 'eslint(no-console)', path: 'packages/limiter/src/talk.ts', text: "console.log('a');" },
  {
    rule: 'eslint(no-warning-comments)',
    path: 'packages/limiter/src/later.ts',
    text: '// TODO: write it\nexport const a = 1;',
  },
  {
    rule: 'Unused oxlint-disable directive',
    path: 'packages/limiter/src/directive.ts',
    text: '// oxlint-disable-next-line no-console\nexport const a = 1;',
  },
  {
    rule: 'vitest(no-focused-tests)',
    path: 'packages/limiter/src/focused.test.ts',
    text: "import { expect, test } from 'vitest';\ntest.only('a', () => { expect(1).toBe(1); });",
  },
];

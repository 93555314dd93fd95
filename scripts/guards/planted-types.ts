import type { PlantedFile } from './sandbox.ts';

export interface PlantedTypeError extends PlantedFile {
  readonly guard: string;
  /** The compiler's code for the error that must be reported in this file. */
  readonly code: string;
}

export const PLANTED_TYPE_ERRORS: readonly PlantedTypeError[] = [
  inLibrary('strict', 'TS2322', 'export const a: number = null;'),
  inLibrary('noImplicitAny', 'TS7006', 'export function f(a): void { void a; }'),
  inLibrary(
    'noUncheckedIndexedAccess',
    'TS2322',
    'export function f(all: readonly number[]): number { return all[0]; }',
  ),
  inLibrary('exactOptionalPropertyTypes', 'TS2375', 'export const a: { b?: number } = { b: undefined };'),
  inLibrary(
    'verbatimModuleSyntax',
    'TS1484',
    "import { A } from './verbatimModuleSyntaxType.ts';\nexport type B = A;",
  ),
  inLibrary('isolatedDeclarations', 'TS9010', 'export const a = Math.random();'),
  inLibrary('erasableSyntaxOnly', 'TS1294', 'export enum A { B }'),
  inLibrary(
    'noImplicitOverride',
    'TS4114',
    'export class A { f(): void {} }\nexport class B extends A { f(): void {} }',
  ),
  inLibrary(
    'noFallthroughCasesInSwitch',
    'TS7029',
    'export function f(a: 1 | 2): void { switch (a) { case 1: void a; case 2: } }',
  ),
  inLibrary(
    'noPropertyAccessFromIndexSignature',
    'TS4111',
    'export function f(a: Record<string, number>): unknown { return a.b; }',
  ),
  inLibrary('noUnusedLocals', 'TS6133', 'const a = 1;\nexport {};'),
  inLibrary('noUnusedParameters', 'TS6133', 'export function f(a: number): void {}'),
  inLibrary(
    'noImplicitReturns',
    'TS7030',
    'export function f(a: boolean): number | undefined { if (a) return 1; }',
  ),
  inLibrary('noUncheckedSideEffectImports', 'TS2882', "import 'no-such-package';"),
  inLibrary(
    'module nodenext',
    'TS2835',
    "import type { A } from './verbatimModuleSyntaxType';\nexport type B = A;",
  ),
  {
    guard: 'declarations of others are checked',
    code: 'TS2304',
    path: 'packages/limiter/src/broken.d.ts',
    text: 'export declare const a: NoSuchType;',
  },
  ...[
    'packages/limiter/src/near.test.ts',
    'packages/limiter/test/far.test.ts',
    'packages/gateway/test/gateway.test.ts',
    'scripts/script.ts',
    'scripts/script.test.ts',
    'test/e2e/e2e.test.ts',
    'examples/example.ts',
    'examples/example.test.ts',
    'bench/bench.ts',
    'tool.config.ts',
  ].map((path) => ({
    guard: `${path} is part of a project`,
    code: 'TS2322',
    path,
    text: "export const a: number = 'text';",
  })),
];

/** What the planted errors import. */
export const TYPE_SUPPORT: readonly PlantedFile[] = [
  { path: 'packages/limiter/src/verbatimModuleSyntaxType.ts', text: 'export type A = number;' },
];

function inLibrary(guard: string, code: string, text: string): PlantedTypeError {
  return { guard, code, path: `packages/limiter/src/${guard.replaceAll(' ', '-')}.ts`, text };
}

import type { PlantedFile } from './sandbox.ts';

const MANIFEST = {
  name: 'spillgate',
  version: '0.1.0',
  license: 'Apache-2.0',
  type: 'module',
  files: ['dist'],
};

/** Its entry point does not exist: publint must object. */
export const UNPUBLISHABLE_PACKAGE: readonly PlantedFile[] = [
  manifest({ '.': { types: './dist/index.d.ts', default: './dist/missing.js' } }),
  { path: 'packages/limiter/dist/index.d.ts', text: 'export declare const a: number;\n' },
];

/** publint has nothing to say, but the declarations import a file without its extension: attw must object. */
export const UNTYPED_PACKAGE: readonly PlantedFile[] = [
  manifest({ '.': { types: './dist/index.d.ts', default: './dist/index.js' } }),
  { path: 'packages/limiter/dist/index.js', text: 'export const a = 1;\n' },
  { path: 'packages/limiter/dist/index.d.ts', text: "export { a } from './other';\n" },
  { path: 'packages/limiter/dist/other.d.ts', text: 'export declare const a: number;\n' },
];

/** A clean package, to show that the two above fail for the planted reason. */
export const GOOD_PACKAGE: readonly PlantedFile[] = [
  manifest(
    {
      '.': {
        import: { types: './dist/index.d.ts', default: './dist/index.js' },
        require: { types: './dist/cjs/index.d.ts', default: './dist/cjs/index.js' },
      },
    },
    { main: './dist/cjs/index.js', types: './dist/cjs/index.d.ts' },
  ),
  { path: 'packages/limiter/dist/index.js', text: 'export const a = 1;\n' },
  { path: 'packages/limiter/dist/index.d.ts', text: 'export declare const a: number;\n' },
  { path: 'packages/limiter/dist/cjs/package.json', text: '{ "type": "commonjs" }\n' },
  { path: 'packages/limiter/dist/cjs/index.js', text: 'exports.a = 1;\n' },
  { path: 'packages/limiter/dist/cjs/index.d.ts', text: 'export declare const a: number;\n' },
];

/** What npm would have installed from a package that was packed carelessly. */
export const CARELESS_PACKAGE: readonly PlantedFile[] = [
  {
    path: 'package.json',
    text: JSON.stringify({
      ...MANIFEST,
      dependencies: { a: '1.0.0' },
      scripts: { postinstall: 'node a.js' },
    }),
  },
  { path: 'dist/index.d.ts', text: "export { a } from './limiter.ts';\n" },
  { path: 'dist/limiter.test.js', text: '' },
  { path: 'dist/no-longer-there.js', text: '' },
  { path: 'dist/tsconfig.tsbuildinfo', text: '{}' },
  { path: 'src/index.ts', text: '' },
];

/** Sources and dependencies that nothing uses. */
export const UNUSED_THINGS: readonly PlantedFile[] = [
  {
    path: 'packages/limiter/package.json',
    text: JSON.stringify({
      ...MANIFEST,
      exports: { '.': { types: './dist/index.d.ts', default: './dist/index.js' } },
      dependencies: { 'unused-dependency': '1.0.0' },
    }),
  },
  {
    path: 'packages/limiter/src/index.ts',
    text: "import 'unlisted-dependency';\nexport { used } from './part.ts';\n",
  },
  { path: 'packages/limiter/src/part.ts', text: 'export const used = 1;\nexport const unusedExport = 2;\n' },
  { path: 'packages/limiter/src/unused-file.ts', text: 'export const a = 1;\n' },
  { path: 'scripts/script.ts', text: "import { a } from './parts/part.ts';\nconsole.log(a);\n" },
  { path: 'scripts/parts/part.ts', text: 'export const a = 1;\nexport const unusedInScripts = 2;\n' },
];

/** One test that passes, and four ways not to prove anything. */
export const PLANTED_TESTS: readonly PlantedFile[] = [
  testFile('passes', "test('passes', () => { expect(1).toBe(1); });"),
  testFile('asserts-nothing', "test('asserts nothing', () => { void expect; });"),
  testFile('focuses', "test.only('is focused', () => { expect(1).toBe(1); });"),
  testFile('does-not-load', "throw new Error('does not load');"),
  testFile('skips', "test.skip('is skipped', () => { expect(1).toBe(1); });"),
];

/** With `-t 'group wanted'` one test runs, one stays skipped and one is left out. */
export const CHOSEN_TESTS: readonly PlantedFile[] = [
  testFile(
    'chosen',
    `describe('group', () => {
       test('wanted', () => { expect(1).toBe(1); });
       test.skip('wanted but skipped', () => { expect(1).toBe(1); });
       test('left out', () => { expect(1).toBe(2); });
     });`,
  ),
];

function manifest(exports: object, more: object = {}): PlantedFile {
  return { path: 'packages/limiter/package.json', text: JSON.stringify({ ...MANIFEST, ...more, exports }) };
}

function testFile(name: string, text: string): PlantedFile {
  return {
    path: `scripts/${name}.test.ts`,
    text: `import { describe, expect, test } from 'vitest';\n${text}\n`,
  };
}

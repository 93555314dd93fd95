import { everyAlgorithmIsWhole } from '../tidy/algorithms.ts';
import { file, type PlantedTree } from './planted-tree.ts';

const SOURCE = 'packages/limiter/src';

export const PLANTED_ALGORITHMS: readonly PlantedTree[] = [
  {
    violation: 'an algorithm of which something is missing',
    check: everyAlgorithmIsWhole,
    files: [
      file(
        `${SOURCE}/algorithms/index.ts`,
        "import type { A } from './algorithm.ts';\nimport { a } from './a-one/a-one.ts';\nimport { b } from './b-two/b-two.ts';\nimport { c } from './c.ts';",
      ),
      file(`${SOURCE}/algorithms/a-one/a-one.lua`, 'local decideAOne, refundAOne'),
      file(`${SOURCE}/algorithms/a-one/a-one.cases.ts`),
      file(`${SOURCE}/algorithms/cases.ts`, 'aOneCases'),
      file('packages/limiter/test/model/a-one.ts'),
      file(`${SOURCE}/policy.ts`, 'export function aOne(definition) {}'),
      file('docs/algorithms.md', '| [`aOne`](#a-one) | bound |\n`aOne({ name })`'),
      file('docs/gateway-configuration.md', '`aOne`'),
      file(`${SOURCE}/algorithms/b-two/b-two.lua`, 'local decideBTwo'),
    ],
    reports: [
      `${SOURCE}/algorithms/b-two/b-two.lua has no refundBTwo`,
      `${SOURCE}/algorithms/b-two/b-two.cases.ts is missing`,
      `${SOURCE}/algorithms/cases.ts has no bTwoCases`,
      'packages/limiter/test/model/b-two.ts is missing',
      `${SOURCE}/policy.ts has no export function bTwo(`,
      'docs/algorithms.md has no | [`bTwo`](#',
      'docs/algorithms.md has no `bTwo({',
      'docs/gateway-configuration.md has no `bTwo`',
      `${SOURCE}/algorithms/c.ts is not in a folder of its own name`,
    ],
  },
  {
    violation: 'an algorithm without a twin',
    check: everyAlgorithmIsWhole,
    files: [
      file(`${SOURCE}/algorithms/index.ts`, "import { a } from './a/a.ts';"),
      file(`${SOURCE}/algorithms/a/a.cases.ts`),
      file(`${SOURCE}/algorithms/cases.ts`, 'aCases'),
      file('packages/limiter/test/model/a.ts'),
      file(`${SOURCE}/policy.ts`, 'export function a('),
      file('docs/algorithms.md', '| [`a`](#a) | `a({ name })`'),
      file('docs/gateway-configuration.md', '`a`'),
    ],
    reports: [`${SOURCE}/algorithms/a/a.lua is missing`],
  },
];

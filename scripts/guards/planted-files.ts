import {
  commentsAreWrapped,
  filesAreShort,
  namesSayWhatIsInside,
  noFileBesideItsFolder,
} from '../tidy/file-rules.ts';
import { builtModulesHaveSources } from '../tidy/layers.ts';
import { file, type PlantedTree } from './planted-tree.ts';

export const PLANTED_FILES: readonly PlantedTree[] = [
  {
    violation: 'a file of 401 lines',
    check: filesAreShort,
    files: [
      file('a.ts', 'x\n'.repeat(401)),
      file('b.ts', 'x\n'.repeat(400)),
      file('package-lock.json', '\n'.repeat(999)),
    ],
    reports: ['a.ts has 401 lines, the most is 400'],
  },
  {
    violation: 'a comment of 121 columns',
    check: commentsAreWrapped,
    files: [
      file('a.ts', `x();\n// ${'x'.repeat(118)}`),
      file('b.ts', `// ${'x'.repeat(117)}\nconst text = '${'x'.repeat(200)}';`),
      file('c.ts', `/**\n * ${'x'.repeat(118)}\n */\n/** ${'x'.repeat(120)} */`),
      file('d.ts', `// oxlint-disable-next-line no-console -- ${'x'.repeat(120)}`),
      file('e.lua', `  -- ${'x'.repeat(116)}`),
      file('f.generated.ts', `// ${'x'.repeat(200)}`),
    ],
    reports: [
      'a.ts:2 is a comment of 121 columns, the most is 120',
      'c.ts:2 is a comment of 121 columns, the most is 120',
      'c.ts:4 is a comment of 127 columns, the most is 120',
      'e.lua:1 is a comment of 121 columns, the most is 120',
    ],
  },
  {
    violation: 'a file name that says nothing',
    check: namesSayWhatIsInside,
    files: [
      file('src/string-utils.ts'),
      file('src/storeManager.ts'),
      file('common/a.ts'),
      file('src/implicit.ts'),
    ],
    reports: [
      'src/string-utils.ts is named "utils", which says nothing about it',
      'src/storeManager.ts is named "manager", which says nothing about it',
      'common/a.ts is named "common", which says nothing about it',
    ],
  },
  {
    violation: 'a file and a folder of one name',
    check: noFileBesideItsFolder,
    files: [
      file('src/tunnel.ts'),
      file('src/tunnel/relay.ts'),
      file('src/tunnel/tunnel.ts'),
      file('src/tunnel.test.ts'),
    ],
    reports: ['src/tunnel.ts lies beside a folder of the same name'],
  },
  {
    violation: 'an import of a module that is built from nothing',
    check: builtModulesHaveSources,
    files: [
      file('packages/limiter/src/a.ts'),
      file('test/b.test.ts', "import '#limiter/a.js';\nimport type { C } from '#limiter/deep/c.js';"),
    ],
    reports: ['test/b.test.ts:2 imports #limiter/deep/c.js: there is no packages/limiter/src/deep/c.ts'],
  },
];

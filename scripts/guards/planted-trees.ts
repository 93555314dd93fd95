import { architectureIsComplete, architectureNamesWhatExists } from '../tidy/architecture.ts';
import {
  disabledChecksSayWhy,
  everyTestRuns,
  noMachinePaths,
  noRegistryHosts,
  noTestSleeps,
  testsLieApart,
  wallClockIsMeant,
} from '../tidy/file-rules.ts';
import { gatewayLayersHold, libraryLayersHold, workspacesStayApart } from '../tidy/layers.ts';
import { figuresNameTheirCommand } from '../tidy/figures.ts';
import { linksResolve } from '../tidy/links.ts';
import { textIsLookedUpInMaps } from '../tidy/lookups.ts';
import { everyPlatformIsLocked, noDownloadAddressesInLockfile, noInstallScripts } from '../tidy/lockfile.ts';
import { documentedScriptsExist, packagesAreLicensedAndDescribed } from '../tidy/packages.ts';
import { typeNamesAreDistinct } from '../tidy/type-names.ts';
import { PLANTED_ALGORITHMS } from './planted-algorithms.ts';
import { PLANTED_FILES } from './planted-files.ts';
import { file, type PlantedTree } from './planted-tree.ts';

const SOURCE = 'packages/limiter/src';
const GATEWAY = 'packages/gateway/src';
// Put together here, so that the checks do not find them in this file.
const HOME = ['', 'home', 'ann', 'spillgate'].join('/');
const REGISTRY = ['registry', 'npmjs', 'org'].join('.');

const PLANTED_MAP = [
  '# Architecture',
  '## Map',
  '```text',
  'packages/limiter/      the library',
  '  src/limiter.ts         check',
  '  src/stores/            store.ts is the interface, memory/ a table, redis/ `spillgate/redis`; limiter.ts is above',
  '  src/key.ts             keys; HTTP/1 has none',
  '```',
  '## Layers',
  'limiter.ts               knows store.ts',
  'http/                    knows nothing',
  '## To add something',
  '| to add | touch | proven by |',
  '|---|---|---|',
  '| a store | `stores/<name>.ts`, `stores/memory`, [a](docs/a.md) | `npm run guards` |',
  '| a framework | `adapters/<name>.ts` | `gone.test.ts` |',
].join('\n');

export const PLANTED_TREES: readonly PlantedTree[] = [
  ...PLANTED_FILES,
  {
    violation: 'a name for two types',
    check: typeNamesAreDistinct,
    files: [
      file(`${SOURCE}/a.ts`, 'export interface Planted {}\ntype Other = 1;'),
      file(`${GATEWAY}/b.ts`, '\nclass Planted {}\nconst Other = 1;'),
      file('bench/c.ts', 'class Planted {}'),
    ],
    reports: [`${SOURCE}/a.ts:1 declares Planted, which is also declared at ${GATEWAY}/b.ts:2`],
  },
  {
    violation: 'a map that names what is gone',
    check: architectureNamesWhatExists,
    files: [
      file('ARCHITECTURE.md', PLANTED_MAP),
      file(`${SOURCE}/stores/store.ts`),
      file(`${SOURCE}/stores/memory/table.ts`),
      file(`${SOURCE}/limiter.ts`),
      file('packages/limiter/package.json', '{}'),
      file('docs/a.md'),
    ],
    reports: [
      `ARCHITECTURE.md:6 names redis/, which does not exist in ${SOURCE}/stores`,
      'ARCHITECTURE.md:6 names limiter.ts, which does not exist in packages/limiter/src/stores',
      'ARCHITECTURE.md:7 names src/key.ts, which does not exist in packages/limiter',
      'ARCHITECTURE.md:11 names http/, which does not exist',
      'ARCHITECTURE.md:16 names adapters/<name>.ts, which does not exist',
      'ARCHITECTURE.md:16 names gone.test.ts, which does not exist',
    ],
  },
  {
    violation: 'a map without a folder or an entry point',
    check: architectureIsComplete,
    files: [
      file('ARCHITECTURE.md', PLANTED_MAP),
      file(`${SOURCE}/stores/store.ts`),
      file(`${SOURCE}/http/a.ts`),
      file('packages/limiter/test/unit/a.test.ts'),
      file(
        'packages/limiter/package.json',
        '{ "name": "spillgate", "exports": { ".": "", "./redis": "", "./http": "", "./package.json": "" } }',
      ),
    ],
    reports: [
      `ARCHITECTURE.md does not show ${SOURCE}/http/ on its map`,
      'ARCHITECTURE.md does not show packages/limiter/test/unit/ on its map',
      'ARCHITECTURE.md does not show the entry spillgate/http on its map',
    ],
  },
  {
    violation: 'an object that is asked for any text',
    check: textIsLookedUpInMaps,
    files: [
      file(
        `${SOURCE}/a.ts`,
        "const UNITS: Readonly<Record<string, number>> = { s: 1 };\nconst ONE = UNITS['s'];\nconst any = UNITS[text];",
      ),
      file(`${SOURCE}/b.ts`, 'const UNITS: Record<Unit, number> = { s: 1 };\nconst one = UNITS[unit];'),
      file(`${SOURCE}/c.ts`, 'const units: Record<string, number> = read();\nconst one = units[text];'),
    ],
    reports: [`${SOURCE}/a.ts:3 looks up any text in the object UNITS; make it a Map`],
  },
  {
    violation: 'a test beside its source',
    check: testsLieApart,
    files: [file(`${SOURCE}/a.test.ts`), file('packages/limiter/test/a.test.ts'), file('scripts/a.test.ts')],
    reports: [`${SOURCE}/a.test.ts is a test beside its source; tests lie in the test folder of the package`],
  },
  {
    violation: 'a test that sleeps',
    check: noTestSleeps,
    files: [
      file(
        'packages/a/test/a.test.ts',
        'await new Promise((resolve) => setTimeout(resolve, 1_000));\nawait sleep(20);',
      ),
      file('packages/a/test/b.ts', 'setTimeout(close, 20);\nawait sleep(untilMs);\nawait delay(5);'),
      file('packages/a/src/c.ts', 'await sleep(20);'),
    ],
    reports: [
      'packages/a/test/a.test.ts:1 sleep in a test: setTimeout(resolve, 1_000)',
      'packages/a/test/a.test.ts:2 sleep in a test: await sleep(20)',
      'packages/a/test/b.ts:3 sleep in a test: await delay(5)',
    ],
  },
  {
    violation: 'a path of one machine',
    check: noMachinePaths,
    files: [file('a.md', `See ${HOME}.\nGET /api/home/x is fine.`)],
    reports: [`a.md:1 absolute path of one machine: ${HOME.split('/').slice(0, 3).join('/')}`],
  },
  {
    violation: 'the host name of a registry',
    check: noRegistryHosts,
    files: [file('a.json', `{\n"from": "https://${REGISTRY}/a" }`)],
    reports: [`a.json:2 host name of a package registry: ${REGISTRY}`],
  },
  {
    violation: 'a download address in the lockfile',
    check: noDownloadAddressesInLockfile,
    files: [
      file('package-lock.json', '"resolved": "packages/limiter",\n"resolved": "https://example.com/a.tgz",'),
    ],
    reports: ['package-lock.json:2 download address: "resolved": "https://example.com/a.tgz"'],
  },
  {
    violation: 'a native tool that is locked for some platforms only',
    check: everyPlatformIsLocked,
    files: [
      file(
        'package-lock.json',
        JSON.stringify({
          packages: {
            'node_modules/a': { optionalDependencies: { 'a-linux': '1.0.0', 'a-darwin': '1.0.0' } },
            'node_modules/a-linux': { version: '1.0.0' },
          },
        }),
      ),
    ],
    reports: ['package-lock.json has no entry for a-darwin, which node_modules/a may need'],
  },
  {
    violation: 'an install script',
    check: noInstallScripts,
    files: [
      file(
        'package-lock.json',
        JSON.stringify({ packages: { 'node_modules/a': { hasInstallScript: true } } }),
      ),
    ],
    reports: ['package-lock.json node_modules/a wants to run a script when it is installed'],
  },
  {
    violation: 'a test that does not run',
    check: everyTestRuns,
    files: [
      file(
        'a.test.ts',
        "test.only('a');\ntest('b');\ndescribe.concurrent.skip('c');\nit.todo('d');\ntest.skipIf(true)('e');",
      ),
      file('a.ts', 'describe.skip'),
    ],
    reports: [
      'a.test.ts:1 test that does not always run: test.only',
      'a.test.ts:3 test that does not always run: describe.concurrent.skip',
      'a.test.ts:4 test that does not always run: it.todo',
      'a.test.ts:5 test that does not always run: test.skipIf',
    ],
  },
  {
    violation: 'a check that is switched off without a reason',
    check: disabledChecksSayWhy,
    files: [
      file(
        'a.ts',
        [
          '// oxlint-disable-next-line no-console',
          ['a();', '// oxlint-disable-line'].join(' '),
          '// @ts-expect-error -- so',
          '// oxlint-disable-next-line no-console -- the application asked for it',
          "const text = '// oxlint-disable-next-line no-console';",
        ].join('\n'),
      ),
    ],
    reports: [
      'a.ts:1 check that is switched off without a reason: // oxlint-disable-next-line',
      'a.ts:2 check that is switched off without a reason: // oxlint-disable-line',
      'a.ts:3 check that is switched off without a reason: // @ts-expect-error',
    ],
  },
  {
    violation: 'a wait by a clock that steps',
    check: wallClockIsMeant,
    files: [
      file(
        `${SOURCE}/a.ts`,
        "const until = Date.now() + 100;\n// The wall clock: HTTP dates are told by it.\nconst at = Date.now();\nsay('Date.now()');",
      ),
      file(`${SOURCE}/a.test.ts`, 'Date.now()'),
      file('bench/a.ts', 'Date.now()'),
    ],
    reports: [`${SOURCE}/a.ts:1 reads the wall clock, which steps: use performance.now(), or say why`],
  },
  ...PLANTED_ALGORITHMS,
  {
    violation: 'a layer that reaches up',
    check: libraryLayersHold,
    files: [
      file(`${SOURCE}/algorithms/a.ts`, "import './b.ts';\nimport type { A } from '../limit.ts';"),
      file(
        `${SOURCE}/policy.ts`,
        "export * from './algorithms/index.ts';\nexport { a } from './limiter.ts';",
      ),
      file(`${SOURCE}/stores/a.ts`, "import '../policy.ts';\nimport './b.ts';\nimport '../limiter.ts';"),
      file(
        `${SOURCE}/stores/redis/a.ts`,
        "import 'node:net';\nimport '../store.ts';\nimport '../../http/a.ts';",
      ),
      file(`${SOURCE}/limiter.ts`, "import './stores/store.ts';\nimport './stores/memory-store.ts';"),
      file(`${SOURCE}/metrics/a.ts`, "import '../limiter.ts';\nimport '../stores/memory-store.ts';"),
      file(`${SOURCE}/adapters/a.ts`, "import '../limiter.ts';\nconst a = import('../stores/store.ts');"),
      file(`${SOURCE}/index.ts`, "import './stores/memory-store.ts';\nimport './create-limiter.ts';"),
      file(`${SOURCE}/elsewhere/a.ts`),
      file(`${SOURCE}/algorithms/a.test.ts`, "import '../limiter.ts';"),
    ],
    reports: [
      `${SOURCE}/algorithms/a.ts:2 imports ../limit.ts: an algorithm knows other algorithms, durations and errors only`,
      `${SOURCE}/policy.ts:2 imports ./limiter.ts: the domain knows the algorithms, the store port and itself`,
      `${SOURCE}/stores/a.ts:3 imports ../limiter.ts: a store knows the algorithms and the domain, never what is built on it`,
      `${SOURCE}/stores/redis/a.ts:3 imports ../../http/a.ts: a store knows the algorithms and the domain, never what is built on it`,
      `${SOURCE}/limiter.ts:2 imports ./stores/memory-store.ts: the limiter knows the store port, never a concrete store`,
      `${SOURCE}/metrics/a.ts:2 imports ../stores/memory-store.ts: metrics are listeners: they know the limiter and the domain`,
      `${SOURCE}/adapters/a.ts:2 imports ../stores/store.ts: an adapter only translates between a framework and the limiter`,
      `${SOURCE}/elsewhere/a.ts belongs to no layer of scripts/tidy/layers.ts`,
    ],
  },
  {
    violation: 'a Node module where edge runtimes must work',
    check: libraryLayersHold,
    files: [
      file(`${SOURCE}/key.ts`, "import { createHash } from 'node:crypto';"),
      file(`${SOURCE}/index.ts`, "import 'node:fs';"),
      file(`${SOURCE}/adapters/hono.ts`, "import 'node:http';"),
      file(`${SOURCE}/adapters/express.ts`, "import 'node:http';"),
      file(`${SOURCE}/testing/a.ts`, "import 'node:fs';"),
    ],
    reports: [
      `${SOURCE}/key.ts:1 imports node:crypto: does not exist on edge runtimes`,
      `${SOURCE}/index.ts:1 imports node:fs: does not exist on edge runtimes`,
      `${SOURCE}/adapters/hono.ts:1 imports node:http: does not exist on edge runtimes`,
    ],
  },
  {
    violation: 'a part of the gateway that knows too much',
    check: gatewayLayersHold,
    files: [
      file(`${GATEWAY}/config/a.ts`, "import './b.ts';\nimport 'spillgate';\nimport '../rules/a.ts';"),
      file(
        `${GATEWAY}/http-client/a.ts`,
        "import 'node:net';\nimport '../config/a.ts';\nimport 'spillgate';",
      ),
      file(`${GATEWAY}/rules/a.ts`, "import '../config/a.ts';\nimport '../proxy/a.ts';"),
      file(`${GATEWAY}/proxy/a.ts`, "import '../rules/a.ts';\nimport { env } from 'node:process';"),
      file(`${GATEWAY}/cli/a.ts`, "import '../proxy/a.ts';\nimport '#limiter/key.js';\nimport '../main.ts';"),
      file(`${GATEWAY}/main.ts`, "import './cli/a.ts';\nimport 'node:process';"),
      file(`${GATEWAY}/elsewhere/a.ts`),
    ],
    reports: [
      `${GATEWAY}/config/a.ts:3 imports ../rules/a.ts: the configuration knows nothing of what is configured`,
      `${GATEWAY}/http-client/a.ts:2 imports ../config/a.ts: the HTTP client knows nothing of the gateway, and needs no package`,
      `${GATEWAY}/http-client/a.ts:3 imports spillgate: the HTTP client knows nothing of the gateway, and needs no package`,
      `${GATEWAY}/rules/a.ts:2 imports ../proxy/a.ts: rules decide about facts; how a request came and where it goes is not theirs`,
      `${GATEWAY}/proxy/a.ts:2 imports node:process: only main.ts touches the process`,
      `${GATEWAY}/cli/a.ts:2 imports #limiter/key.js: only scripts and tests reach into a package`,
      `${GATEWAY}/cli/a.ts:3 imports ../main.ts: everything may be composed here, and nobody imports the program`,
      `${GATEWAY}/elsewhere/a.ts belongs to no layer of scripts/tidy/layers.ts`,
    ],
  },
  {
    violation: 'a package that reaches into another',
    check: workspacesStayApart,
    files: [
      file('packages/gateway/src/main.ts', "import 'spillgate';\nimport '../../limiter/src/key.ts';"),
      file('examples/a.ts', "import '../packages/limiter/src/index.ts';\nimport './b.ts';"),
    ],
    reports: [
      "packages/gateway/src/main.ts:2 imports ../../limiter/src/key.ts: leaves packages/gateway/; use the package's public entry point",
      "examples/a.ts:1 imports ../packages/limiter/src/index.ts: leaves examples/; use the package's public entry point",
    ],
  },
  {
    violation: 'a link that leads nowhere',
    check: linksResolve,
    files: [
      file(
        'docs/a.md',
        [
          '# One `two`, three!',
          '[good](#one-two-three) [good](b.md#same-1) [good](../docs) [good](https://example.com/#x)',
          '[bad](#two) [bad](missing.md)',
          '```\n[not a link](missing.md)\n```',
          '`[not a link](missing.md)`',
          '[bad]: b.md#nowhere',
        ].join('\n'),
      ),
      file('docs/b.md', '# Same\n## Same\n'),
    ],
    reports: [
      'docs/a.md:3 links to #two, but docs/a.md has no such heading',
      'docs/a.md:3 links to missing.md, which does not exist',
      'docs/a.md:8 links to b.md#nowhere, but docs/b.md has no such heading',
    ],
  },
  {
    violation: 'a figure without the command that made it',
    check: figuresNameTheirCommand,
    files: [
      file('docs/a.md', '# Speed\n\nA p50 of 3 ms.\n'),
      file('docs/b.md', '# Speed\n\nA p50 of 3 ms: `npm run bench -- memory`.\n'),
    ],
    reports: [
      'docs/a.md:3 tells what was measured, and the page names no command that measures it (npm run bench, soak, torture)',
    ],
  },
  {
    violation: 'a package without license or README',
    check: packagesAreLicensedAndDescribed,
    files: [
      file('package.json', '{"license": "Apache-2.0"}'),
      file('README.md'),
      file('packages/a/package.json', '{"license": "MIT"}'),
    ],
    reports: [
      'packages/a/package.json does not say "license": "Apache-2.0"',
      'packages/a/README.md is missing',
    ],
  },
  {
    violation: 'a document that names a missing npm script',
    check: documentedScriptsExist,
    files: [
      file('package.json', '{"scripts": {"test": "true", "check:package": "true"}}'),
      file(
        'README.md',
        'Run `npm ci && npm test`,\nthen `npm run check:package` and `npm run bench -- memory`.\n`npm start`',
      ),
    ],
    reports: [
      'README.md:2 names the npm script "bench", which does not exist',
      'README.md:3 names the npm script "start", which does not exist',
    ],
  },
];

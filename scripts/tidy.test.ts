import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { staleFiles } from './generators/generated-files.ts';
import { everyAlgorithmIsWhole } from './tidy/algorithms.ts';
import { architectureIsComplete, architectureNamesWhatExists } from './tidy/architecture.ts';
import {
  commentsAreWrapped,
  disabledChecksSayWhy,
  everyTestRuns,
  filesAreShort,
  namesSayWhatIsInside,
  noFileBesideItsFolder,
  noMachinePaths,
  noRegistryHosts,
  noTestSleeps,
  testsLieApart,
  wallClockIsMeant,
} from './tidy/file-rules.ts';
import {
  builtModulesHaveSources,
  gatewayLayersHold,
  libraryLayersHold,
  workspacesStayApart,
} from './tidy/layers.ts';
import { figuresNameTheirCommand } from './tidy/figures.ts';
import { linksResolve } from './tidy/links.ts';
import { textIsLookedUpInMaps } from './tidy/lookups.ts';
import { everyPlatformIsLocked, noDownloadAddressesInLockfile, noInstallScripts } from './tidy/lockfile.ts';
import { documentedScriptsExist, packagesAreLicensedAndDescribed } from './tidy/packages.ts';
import { readTree } from './tidy/tree.ts';
import { typeNamesAreDistinct } from './tidy/type-names.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const files = readTree(root);

test.each([
  ['no file is over 400 lines', filesAreShort],
  ['no comment is wider than 120 columns', commentsAreWrapped],
  ['file names say what is inside', namesSayWhatIsInside],
  ['no file lies beside a folder of the same name', noFileBesideItsFolder],
  ['no two types have the same name', typeNamesAreDistinct],
  ['ARCHITECTURE names only files that exist', architectureNamesWhatExists],
  ['the map in ARCHITECTURE is complete', architectureIsComplete],
  ['text is looked up in maps, never in objects', textIsLookedUpInMaps],
  ['tests lie in the test folder of their package', testsLieApart],
  ['no test sleeps for a fixed time', noTestSleeps],
  [
    'every algorithm has its twin, cases, refund, model, policy function and documentation',
    everyAlgorithmIsWhole,
  ],
  ['the layers of the library hold', libraryLayersHold],
  ['the layers of the gateway hold', gatewayLayersHold],
  ['workspaces import each other by public entry points only', workspacesStayApart],
  ['whoever imports a built module names one that has a source', builtModulesHaveSources],
  ['relative links and anchors in the documents resolve', linksResolve],
  ['pages with figures name the command that made them', figuresNameTheirCommand],
  ['every package has a license and a README', packagesAreLicensedAndDescribed],
  ['every npm script that a document names exists', documentedScriptsExist],
  ['the lockfile holds no download addresses', noDownloadAddressesInLockfile],
  ['the lockfile is complete for every platform', everyPlatformIsLocked],
  ['no dependency runs a script when it is installed', noInstallScripts],
  ['no file names a path of one machine', noMachinePaths],
  ['no file names a package registry', noRegistryHosts],
  ['nothing waits or measures by a clock that steps', wallClockIsMeant],
  ['no test is focused, skipped or left to be written', everyTestRuns],
  ['where a check is switched off, a reason stands beside it', disabledChecksSayWhy],
])('%s', (_guarantee, check) => {
  expect(check(files)).toEqual([]);
});

test('generated files are fresh', () => {
  expect(staleFiles(root)).toEqual([]);
});

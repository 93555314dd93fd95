// The gateway as it would be published, unpacked beside the packed library and its dependencies: does it run there?
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { mustRun } from '../command.ts';

const PACKAGE_FOLDER = 'packages/gateway';
const NAME = 'spillgate-gateway';
const EXPECTED_FILES: readonly string[] = [
  'README.md',
  'LICENSE',
  'api/ratelimit.proto',
  'api/limits-service.openapi.json',
  'dist/dashboard/index.html',
  'dist/dashboard/dashboard.js',
];

const CONSUMER = `
import { loadConfig } from '${NAME}';
import { createLimitsService, definePlans } from '${NAME}/limits-service';
const { ok } = loadConfig({ file: { path: 'a.yaml', text: 'backend: { url: "http://localhost:3000" }' } });
const plans = definePlans({ free: { average: 10, period: '1s' } });
console.log(ok, typeof createLimitsService({ limits: () => plans('free') }).listen);
`;
const PRINTS = 'true function';

/** Throws and says what is wrong; answers the version that the program prints. */
export async function checkGatewayPackage(consumer: string): Promise<string> {
  const modules = join(consumer, 'node_modules');
  const installed = join(modules, NAME);
  await unpackInto(installed);
  const missing = EXPECTED_FILES.filter((file) => !existsSync(join(installed, file)));
  if (missing.length > 0) throw new Error(`${NAME} lacks ${missing.join(', ')}`);
  await linkDependencies(modules, join(installed, 'package.json'));

  const program = join(installed, 'dist/main.js');
  const version = (await mustRun(process.execPath, [program, '--version'], { cwd: consumer })).trim();
  await mustRun(process.execPath, [program, 'init', 'gateway.yaml'], { cwd: consumer });
  await mustRun(process.execPath, [program, 'check', 'gateway.yaml'], { cwd: consumer });
  await writeFile(join(consumer, 'gateway.mjs'), CONSUMER);
  const printed = (await mustRun(process.execPath, ['gateway.mjs'], { cwd: consumer })).trim();
  if (printed !== PRINTS) throw new Error(`${NAME} must print ${PRINTS} but printed ${printed}`);
  return version;
}

async function unpackInto(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const packed = await mustRun('npm', [
    'pack',
    `./${PACKAGE_FOLDER}`,
    '--pack-destination',
    folder,
    '--loglevel=error',
  ]);
  const tarball = join(folder, packed.trim().split('\n').at(-1) ?? '');
  await mustRun('tar', ['-xzf', tarball, '--strip-components=1', '-C', folder]);
}

/** The library is there already, as it was packed; everything else as the repository has it. */
async function linkDependencies(modules: string, manifest: string): Promise<void> {
  const parsed: unknown = JSON.parse(readFileSync(manifest, 'utf8'));
  for (const name of namesIn(parsed).filter((dependency) => dependency !== 'spillgate')) {
    const link = join(modules, name);
    await mkdir(dirname(link), { recursive: true });
    const own = resolve(PACKAGE_FOLDER, 'node_modules', name);
    await symlink(existsSync(own) ? own : resolve('node_modules', name), link);
  }
}

function namesIn(manifest: unknown): readonly string[] {
  if (typeof manifest !== 'object' || manifest === null || !('dependencies' in manifest)) return [];
  return typeof manifest.dependencies === 'object' ? Object.keys(manifest.dependencies ?? {}) : [];
}

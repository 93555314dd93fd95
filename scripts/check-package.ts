// Packs the library, installs the tarball into an empty project and uses it there; then the gateway beside it. Run from
// the root of the repository.
import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { mustRun, run } from './command.ts';
import { CONSUMERS, writeConsumers } from './package-check/consumers.ts';
import { edgeProblems } from './package-check/edge-entries.ts';
import { checkGatewayPackage } from './package-check/gateway-package.ts';
import { runtimes } from './package-check/runtimes.ts';
import { contentProblems, pack } from './package-check/tarball.ts';

console.log('Packing the library');
const tarball = await pack();

console.log('Linting the package (publint, are the types wrong)');
console.log(await mustRun('npm', ['run', '--silent', 'lint:package']));

const folder = await mkdtemp(join(tmpdir(), 'spillgate-consumer-'));
try {
  await checkInstalled(folder);
  console.log(`Unpacking the gateway beside it: version ${await checkGatewayPackage(folder)} runs`);
} finally {
  await rm(folder, { recursive: true, force: true });
}
console.log('The packages are fine.');

async function checkInstalled(consumer: string): Promise<void> {
  console.log('Installing the tarball into an empty project');
  await writeConsumers(consumer);
  await mustRun('npm', ['install', resolve(tarball), '--offline', '--ignore-scripts', '--no-audit'], {
    cwd: consumer,
  });
  expectNothingElse(join(consumer, 'node_modules'));

  console.log('Compiling consumers against the shipped declarations');
  await mustRun(resolve('node_modules/.bin/tsc'), ['-p', consumer]);

  for (const { version, program } of await runtimes()) {
    for (const expected of CONSUMERS) {
      const { exitCode, output } = await run(program, [expected.program], { cwd: consumer });
      const [printed] = output.split('\n');
      if (exitCode !== 0 || printed !== expected.prints) {
        throw new Error(
          `Node ${version}: ${expected.program} must print ${expected.prints} but printed\n${output}`,
        );
      }
    }
    console.log(`  Node ${version}: import, require and every entry point work`);
  }
}

function expectNothingElse(modules: string): void {
  const installed = readdirSync(modules).filter((name) => !name.startsWith('.'));
  if (installed.join() !== 'spillgate')
    throw new Error(`npm installed more than the library: ${installed.join(', ')}`);

  const library = join(modules, 'spillgate');
  const files = readdirSync(library, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(library.length + 1));
  const problems = [...contentProblems(library, files), ...edgeProblems(library)];
  if (problems.length > 0) throw new Error(problems.join('\n'));
  console.log(`  ${files.length} files, no dependencies; what is for edge runtimes needs no Node.js`);
}

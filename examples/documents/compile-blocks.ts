import { execFile } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { CodeBlock } from './code-blocks.ts';

export interface CompiledBlocks {
  /** What the compiler has to say; nothing when all is well. */
  readonly complaints: string;
  /** The path of a block's program. */
  readonly programOf: (block: CodeBlock) => string;
}

/** Compiles blocks as a user's compiler would, strictly, in a folder below the repository that is emptied first. */
export async function compileBlocks(
  blocks: readonly CodeBlock[],
  folder: URL,
  repository: URL,
): Promise<CompiledBlocks> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  // Blank lines in front: the compiler then names the line of the document.
  await Promise.all(
    blocks.map(async (block) =>
      writeFile(new URL(`${nameOf(block)}.ts`, folder), `${'\n'.repeat(block.line - 1)}${block.text}`),
    ),
  );
  await writeFile(new URL('tsconfig.json', folder), JSON.stringify(configuration(repository)));
  return {
    complaints: await compile(folder, repository),
    programOf: (block) => fileURLToPath(new URL(`js/${nameOf(block)}.js`, folder)),
  };
}

function configuration(repository: URL): object {
  return {
    extends: fileURLToPath(new URL('tsconfig.base.json', repository)),
    compilerOptions: {
      rootDir: '.',
      outDir: 'js',
      composite: false,
      declaration: false,
      // A document shows how a value is got; what is done with it is the reader's business.
      noUnusedLocals: false,
      // Packages that nobody installs together (two limiters for Fastify) are named side by side on the pages.
      skipLibCheck: true,
      // NestJS is written with these.
      experimentalDecorators: true,
    },
    include: ['*.ts'],
  };
}

function nameOf({ document, line }: CodeBlock): string {
  return `${document.replace(/\.md$/, '').replaceAll('/', '-')}-${line}`;
}

async function compile(folder: URL, repository: URL): Promise<string> {
  const compiler = fileURLToPath(new URL('node_modules/typescript/bin/tsc', repository));
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [compiler, '-p', fileURLToPath(folder)]);
    return stdout;
  } catch (error) {
    return error instanceof Error && 'stdout' in error ? String(error.stdout) : String(error);
  }
}

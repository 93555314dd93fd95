import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { mustRun } from '../command.ts';

/**
 * Other runtimes, test runners and bundlers. The binaries of Bun and Deno are packages of their own, without install
 * scripts.
 */
export const RUNTIME_TOOLS: Readonly<Record<string, string>> = {
  '@deno/linux-x64-glibc': '2.9.6',
  '@nestjs/common': '11.2.9',
  '@nestjs/core': '11.2.9',
  '@nestjs/platform-express': '11.2.9',
  '@nestjs/testing': '11.2.6',
  '@oven/bun-linux-x64': '1.4.4',
  '@types/jest': '30.0.0',
  '@types/node': '20.19.43',
  esbuild: '0.28.2',
  hono: '4.13.17',
  ioredis: '5.9.3',
  iovalkey: '0.4.0',
  jest: '30.5.2',
  redis: '5.12.1',
  'reflect-metadata': '0.2.2',
  rxjs: '7.8.2',
  'ts-jest': '29.4.15',
  'ts-node': '10.9.2',
  tsx: '4.23.15',
  typescript: '5.9.3',
  webpack: '5.112.1',
};

/** Next.js with one of the Redis clients: the others are missing there, as in most applications. */
export const NEXT_TOOLS: Readonly<Record<string, string>> = {
  '@types/node': '20.19.43',
  '@types/react': '19.3.0',
  ioredis: '5.9.3',
  next: '16.4.6',
  react: '19.3.1',
  'react-dom': '19.3.1',
  typescript: '5.9.3',
};

/** Not below node_modules, where Jest looks for no tests and `npm ci` keeps nothing. */
const CACHE = 'build/runtimes';
const INSTALL_DEADLINE_MS = 600_000;

/** A project with exactly these packages, kept from run to run. Answers its folder. */
export async function installTools(
  name: string,
  packages: Readonly<Record<string, string>>,
): Promise<string> {
  const folder = resolve(CACHE, name);
  const manifest = JSON.stringify({ name, private: true, dependencies: packages });
  const installed = join(folder, 'node_modules/.installed.json');
  if (existsSync(installed) && readFileSync(installed, 'utf8') === manifest) return folder;

  console.log(`  fetching ${Object.keys(packages).join(', ')}`);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'package.json'), manifest);
  await mustRun('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock'], {
    cwd: folder,
    deadlineMs: INSTALL_DEADLINE_MS,
  });
  await writeFile(installed, manifest);
  return folder;
}

/** Puts the packed library where an application has it. */
export async function unpackInto(folder: string, tarball: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await mustRun('tar', ['-xzf', tarball, '--strip-components=1', '-C', folder]);
}

/** Files by their paths below a folder. */
export async function writeFiles(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
}

// Runs a Dockerfile without Docker: its stages become folders, COPY copies, RUN runs. Enough for our own file, whose
// base images bring nothing but Node.js; everything else it does is refused rather than skipped.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { mustRun } from '../../scripts/command.ts';

interface Instruction {
  readonly word: string;
  readonly rest: string;
}

/** What says something about the image, and changes no file. */
const METADATA = new Set(['ENV', 'USER', 'EXPOSE', 'STOPSIGNAL', 'HEALTHCHECK', 'ENTRYPOINT', 'CMD']);
/** What the base images bring. */
const FROM_BASE = ['/usr/local/bin/node'];
const RUN_WITHIN_MS = 240_000;

export interface BuiltImage {
  /** The root of its file system. */
  readonly folder: string;
  readonly workingFolder: string;
  readonly instructions: readonly Instruction[];
}

/** Builds `file` from `context` into a folder per stage below `target`. */
export async function buildWithoutDocker(file: string, context: string, target: string): Promise<BuiltImage> {
  const instructions = instructionsOf(readFileSync(file, 'utf8'));
  let stage = '';
  let workingFolder = '/';
  for (const [at, { word, rest }] of instructions.entries()) {
    const here = () => join(target, stage, workingFolder);
    if (word === 'FROM') {
      stage = / AS (?<name>\w+)$/i.exec(rest)?.groups?.['name'] ?? `stage-${at}`;
      workingFolder = '/';
    } else if (word === 'WORKDIR') {
      workingFolder = rest;
      mkdirSync(here(), { recursive: true });
    } else if (word === 'COPY') {
      copy(rest, { context, target, to: here() });
    } else if (word === 'RUN') {
      if (isOfTheImageOnly(rest)) continue;
      await mustRun('sh', ['-ec', rest], { cwd: here(), deadlineMs: RUN_WITHIN_MS });
    } else if (!METADATA.has(word)) {
      throw new Error(`${file}: this test does not know ${word}`);
    }
  }
  return { folder: join(target, stage), workingFolder, instructions };
}

/** Copies what a `.dockerignore` of the form "nothing, except" lets into the context. */
export function copyContext(root: string, ignoreFile: string, target: string): void {
  const lines = readFileSync(ignoreFile, 'utf8').split('\n').filter(Boolean);
  if (lines[0] !== '**') throw new Error(`${ignoreFile} has to begin with ** and then name what it lets in`);
  const excluded = lines.slice(1).filter((line) => !line.startsWith('!'));
  const included = lines.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
  for (const pattern of included) {
    const found = expand(root, pattern);
    if (found.length === 0) throw new Error(`${ignoreFile}: ${pattern} is not there`);
    for (const path of found) cpSync(join(root, path), join(target, path), { recursive: true });
  }
  if (excluded.some((pattern) => pattern !== '**/*.test.ts'))
    throw new Error(`${ignoreFile}: ${excluded.join(' ')}`);
}

/** A `*` stands for one folder. */
function expand(root: string, pattern: string): readonly string[] {
  const [before = '', after] = pattern.split('*');
  const paths =
    after === undefined
      ? [pattern]
      : readdirSync(join(root, before)).map((name) => `${before}${name}${after}`);
  return paths.filter((path) => existsSync(join(root, path)));
}

function instructionsOf(text: string): Instruction[] {
  return text
    .replaceAll(/^\s*#.*$/gm, '')
    .replaceAll(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [word = '', ...rest] = line.trim().split(' ');
      return { word, rest: rest.join(' ').trim() };
    });
}

function copy(rest: string, { context, target, to }: { context: string; target: string; to: string }): void {
  const words = rest.split(/\s+/);
  const stage = words[0]?.startsWith('--from=') ? words.shift()?.slice('--from='.length) : undefined;
  const destination = words.pop() ?? '.';
  for (const source of words) {
    if (stage !== undefined && FROM_BASE.includes(source)) continue;
    const from = stage === undefined ? join(context, source) : join(target, stage, source);
    const intoFolder = destination.endsWith('/') || words.length > 1;
    const place = intoFolder ? join(to, destination, relative(dirname(from), from)) : join(to, destination);
    cpSync(from, place, { recursive: true, verbatimSymlinks: true });
  }
}

/** Packages of the distribution, and links to absolute paths: neither belongs on this machine. */
function isOfTheImageOnly(command: string): boolean {
  return command.startsWith('apk add ') || command.startsWith('ln -s /app/');
}

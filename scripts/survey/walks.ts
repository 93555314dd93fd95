// What one request runs through, as V8 counts calls (`NODE_V8_COVERAGE`): each program runs once with few requests and
// once with more. A function whose count grew with every further request is on the request's path.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { classesOf } from './declarations.ts';
import { grouped } from './grouped.ts';
import { WALK_PROGRAMS, type WalkRun } from './walk-programs.ts';

export interface Walk {
  readonly name: string;
  readonly files: readonly string[];
  readonly functions: number;
  /** Classes of which a method ran. */
  readonly classes: readonly string[];
  /** Methods of one name that ran in several classes. */
  readonly sharedMethodNames: readonly string[];
}

interface Called {
  readonly file: string;
  readonly name: string;
  readonly start: number;
  readonly calls: number;
}

interface CoverageReport {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly { readonly startOffset: number; readonly count: number }[];
    }[];
  }[];
}

const FEW = 20;
const MORE = 60;

/** The tree must be built, and has to have its own `node_modules`. */
export async function walksOf(tree: string): Promise<Walk[]> {
  const walks: Walk[] = [];
  for (const name of WALK_PROGRAMS.keys()) {
    const before = await callsOf(name, tree, FEW);
    const after = await callsOf(name, tree, MORE);
    const onPath = [...after].filter(
      ([place, { calls }]) => calls - (before.get(place)?.calls ?? 0) >= MORE - FEW,
    );
    walks.push(
      summary(
        name,
        tree,
        onPath.map(([, called]) => called),
      ),
    );
  }
  return walks;
}

async function callsOf(name: string, tree: string, requests: number): Promise<Map<string, Called>> {
  const program = WALK_PROGRAMS.get(name);
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-walk-'));
  const run: WalkRun = { tree, requests, folder };
  try {
    await program?.(run);
    const reports = readdirSync(folder).filter((file) => file.startsWith('coverage-'));
    return new Map(
      reports
        .flatMap((file) => callsIn(tree, readReport(join(folder, file))))
        .map((one) => [placeOf(one), one]),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function callsIn(tree: string, { result }: CoverageReport): Called[] {
  return result
    .filter(({ url }) => url.startsWith('file:') && /\/packages\/[^/]+\/dist\//.test(url))
    .flatMap(({ url, functions }) =>
      functions.flatMap(({ functionName, ranges: [whole] }) =>
        // A function that starts at 0 is the module itself.
        whole === undefined || whole.count === 0 || whole.startOffset === 0
          ? []
          : [
              {
                file: relative(tree, fileURLToPath(url)),
                name: functionName,
                start: whole.startOffset,
                calls: whole.count,
              },
            ],
      ),
    );
}

function summary(name: string, tree: string, onPath: readonly Called[]): Walk {
  const files = [...new Set(onPath.map(({ file }) => file))].toSorted();
  const methods = files.flatMap((path) => {
    const classes = classesOf({ path, text: readFileSync(join(tree, path), 'utf8') });
    return onPath
      .filter(({ file }) => file === path)
      .flatMap((one) => {
        const owner = classes.find(({ start, end }) => start <= one.start && one.start < end);
        return owner === undefined || !/^\w/.test(one.name) ? [] : [{ owner: owner.name, method: one.name }];
      });
  });
  const owners = grouped(methods, ({ method }) => method);
  return {
    name,
    files,
    functions: onPath.length,
    classes: [...new Set(methods.map(({ owner }) => owner))],
    sharedMethodNames: [...owners]
      .filter(([, all]) => new Set(all.map(({ owner }) => owner)).size > 1)
      .map(([method, all]) => `${method} (${new Set(all.map(({ owner }) => owner)).size})`),
  };
}

function placeOf({ file, start }: Called): string {
  return `${file}:${start}`;
}

function readReport(path: string): CoverageReport {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the format of V8, written by this Node.js
  return JSON.parse(readFileSync(path, 'utf8')) as CoverageReport;
}

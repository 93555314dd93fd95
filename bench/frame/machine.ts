import { cpus, loadavg } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (options?: { type: 'minor' }) => void;

let exposed: Collect | undefined;

/** One line about the machine, without which no number below it means anything. */
export function machineFacts(): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown processor';
  return `Node ${process.version}, ${model}, ${cpus().length} cores, ${process.platform} ${process.arch}.`;
}

/** A warning if other programs kept the processors busy, else nothing. */
export function busyMachine(): readonly string[] {
  const [load = 0] = loadavg();
  const cores = cpus().length;
  return load <= cores
    ? []
    : [
        `The machine was busy: load average ${load.toFixed(1)} on ${cores} cores. Repeat this on a quiet one.`,
      ];
}

/** A full collection: nothing unreachable is left. */
export function collectGarbage(): void {
  // Without arguments: Node 20 takes any argument at all, even `{ type: 'major' }`, as a wish for a minor collection.
  collector()();
}

/** Empties the young generation only: cheap even next to a million live objects. */
export function collectYoungGarbage(): void {
  collector()({ type: 'minor' });
}

/** Works without `--expose-gc` on the command line, so that a suite runs the same from npm and from node. */
function collector(): Collect {
  if (exposed === undefined) {
    setFlagsFromString('--expose-gc');
    const gc: unknown = runInNewContext('gc');
    if (!isCollect(gc)) throw new Error('This Node does not expose its garbage collector.');
    exposed = gc;
  }
  return exposed;
}

function isCollect(value: unknown): value is Collect {
  return typeof value === 'function';
}

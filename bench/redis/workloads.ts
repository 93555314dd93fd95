import { Keys, uniform } from '../frame/keys.ts';
import { hotWorkload, mixedWorkload, type Workload } from './workload.ts';

const LOG_KEYS = 1000;

const OPEN = {
  mixed: mixedWorkload,
  hot: hotWorkload,
  log: logWorkload,
} satisfies Record<string, () => Workload>;

export type WorkloadName = keyof typeof OPEN;

/** Opens each when it is first asked for, and once: the order of its keys goes on where it ended. */
export function openWorkload(): (name: WorkloadName) => Workload {
  const opened = new Map<WorkloadName, Workload>();
  return (name) => {
    const workload = opened.get(name) ?? OPEN[name]();
    opened.set(name, workload);
    return workload;
  };
}

function logWorkload(): Workload {
  const keys = new Keys(uniform(LOG_KEYS));
  return { next: () => ({ policy: 'ample', key: keys.next() }) };
}

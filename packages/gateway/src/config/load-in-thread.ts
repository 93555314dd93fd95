import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { readEnvironment } from './environment.ts';
import {
  checkConfig,
  toLoadedConfig,
  type CheckedConfig,
  type ConfigSource,
  type LoadedConfig,
} from './load-config.ts';
import type { YamlFile } from './yaml-tree.ts';

export interface ReadableSource extends ConfigSource {
  readonly readFile: (path: string) => string;
}

/**
 * `loadConfig` for a process that serves traffic: checking a large file takes most of a second, in which nobody would
 * be answered. A thread does it, and ends. Rejects if there can be no thread.
 */
export async function loadConfigInThread({
  file,
  env = {},
  readFile,
}: ReadableSource): Promise<LoadedConfig> {
  // Here, because only the process knows the text of files that can be read once.
  const environment = readEnvironment(env, readFile);
  if (file === undefined || isQuick(file)) return toLoadedConfig(checkConfig(file, environment));
  const thread = new Worker(new URL('./config-thread.js', import.meta.url), {
    workerData: [file, environment] satisfies Parameters<typeof checkConfig>,
  });
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what config-thread.ts sends
    const [checked] = (await once(thread, 'message')) as [CheckedConfig];
    return toLoadedConfig(checked);
  } finally {
    await thread.terminate();
  }
}

/**
 * Checked within a few milliseconds; a thread takes a hundred times as much processor time, from the workers on the
 * other cores.
 */
const QUICK_LENGTH = 4096;

function isQuick({ text }: YamlFile): boolean {
  // A few lines of aliases stand for thousands of values. Without an anchor (&name) there are none.
  return text.length <= QUICK_LENGTH && !text.includes('&');
}

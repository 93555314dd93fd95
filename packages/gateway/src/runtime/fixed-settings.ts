import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../config/config.ts';
import { pathText, valueAt, type Path } from '../config/path.ts';
import type { Problem } from '../config/problem.ts';
import type { ReadConfig } from './setup.ts';

/** What a running process cannot change: its listeners, and what they are made with. */
const FIXED: readonly Path[] = [
  ['server', 'address'],
  ['server', 'workers'],
  ['server', 'http2'],
  ['server', 'max_header_bytes'],
  ['server', 'max_uri_bytes'],
  ['server', 'max_headers'],
  ['server', 'max_streams_per_connection'],
  ['server', 'tls', 'enabled'],
  ['server', 'tls', 'min_version'],
  ['server', 'tls', 'client_auth'],
  ['admin', 'enabled'],
  ['admin', 'address'],
  ['admin', 'read_timeout'],
  ['admin', 'write_timeout'],
  ['admin', 'idle_timeout'],
  ['tracing', 'enabled'],
  ['tracing', 'endpoint'],
  ['tracing', 'service_name'],
  ['tracing', 'sample_rate'],
];

/** Settings that a new configuration would change and cannot, each with the place where it was written. */
export function fixedSettingProblems(current: Config, { config, originOf }: ReadConfig): readonly Problem[] {
  return FIXED.filter((path) => !isDeepStrictEqual(valueAt(current, path), valueAt(config, path))).map(
    (path) => ({
      severity: 'error',
      origin: originOf(path),
      path: pathText(path),
      message: `${pathText(path)} cannot change while the gateway runs`,
      suggestion: 'Restart the gateway to change it, or change it back.',
    }),
  );
}

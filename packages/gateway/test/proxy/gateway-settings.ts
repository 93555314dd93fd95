import type { z } from 'zod';
import { configSchema, type Config } from '../../src/config/config.ts';
import type { Log } from '../../src/telemetry/log.ts';

type Written = z.input<typeof configSchema>;

export function configOf(written: Written): Config {
  return configSchema.parse(written);
}

export function backendOf(written: NonNullable<Written['backend']>): Config['backend'] {
  return configOf({ backend: written }).backend;
}

export interface KeptLog extends Log {
  readonly lines: readonly string[];
}

/** Keeps what was said: `warn upstream is unhealthy {"upstream":...}`. */
export function keptLog(): KeptLog {
  const lines: string[] = [];
  const keep = (level: string) => (fields: object, message: string) => {
    lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
  };
  return { lines, debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') };
}

import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../config/config.ts';
import { createTracer } from '../telemetry/create-tracer.ts';
import type { Log } from '../telemetry/log.ts';
import type { Tracer } from '../telemetry/tracing.ts';

/** A tracer, and all that it depends on. */
export interface ConfiguredTracer {
  readonly tracer: Tracer;
  readonly plan: Config['tracing'];
}

export interface TracerTools {
  readonly log: Log;
  readonly version: string;
}

/** The tracer that a configuration asks for; the given one if that is it. */
export async function configuredTracer(
  { tracing: plan }: Config,
  { log, version }: TracerTools,
  current?: ConfiguredTracer,
): Promise<ConfiguredTracer | undefined> {
  if (current !== undefined && isDeepStrictEqual(current.plan, plan)) return current;
  const tracer = await createTracer({ config: plan, version, log });
  return tracer === undefined ? undefined : { tracer, plan };
}

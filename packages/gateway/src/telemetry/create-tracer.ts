import type { TracerParts } from './otlp-tracer.ts';
import type { Tracer } from './tracing.ts';

/** Undefined if the configuration wants no traces: then nothing of the SDK is loaded. */
export async function createTracer(parts: TracerParts): Promise<Tracer | undefined> {
  if (!parts.config.enabled) return undefined;
  const { otlpTracer } = await import('./otlp-tracer.ts');
  return otlpTracer(parts);
}

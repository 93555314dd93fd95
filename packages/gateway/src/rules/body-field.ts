import { unusableField, type BodyFacts, type BodyReading } from '../cost/body-fields.ts';
import type { CostConfig } from '../config/schema/cost.ts';
import type { KeyStrategy } from '../config/schema/rate-limit.ts';

/** Why there is no such text; what cannot be read is not missing. */
interface NoField {
  readonly detail: string;
  readonly missing: boolean;
}

/** A text at the top of the body, or why there is none. */
export function readBodyField(body: BodyFacts | undefined, name: string): string | NoField {
  if (body?.repeated.has(name) === true) {
    return { detail: `The body says "${name}" more than once.`, missing: false };
  }
  // What cannot be read is not missing: whoever compresses a body does not choose who is counted.
  if (body?.unreadable !== undefined) return { detail: body.unreadable, missing: false };
  if (body?.unusable.has(name) === true) return { detail: unusableField(name), missing: false };
  const missing = `The body has no text "${name}" at its top, where it has to come early.`;
  return body?.fields.get(name) ?? { detail: missing, missing: true };
}

/** An estimate looks at so much of a body. */
const ESTIMATED_BYTES = 65_536;

/** What of a rule says something about bodies. */
interface BodyUses {
  /** How those are counted whom the rule may refuse. */
  readonly binding: readonly KeyStrategy[];
  /** The same for what refuses nobody. */
  readonly tried: readonly KeyStrategy[];
  readonly costs: readonly (CostConfig | undefined)[];
}

/** What has to be read of bodies before such a rule can decide; undefined if nothing. */
export function bodyReading({ binding, tried, costs }: BodyUses): BodyReading | undefined {
  const [refusing, others] = [fieldsOf(binding), fieldsOf(tried)];
  const fields = [...refusing, ...others];
  const estimates = costs.some((cost) => typeof cost === 'object' && cost.type === 'llmTokens');
  if (fields.length === 0 && !estimates) return undefined;
  return {
    names: [...new Set(fields.map(({ name }) => name))],
    binding: new Set(refusing.map(({ name }) => name)),
    maxBytes: Math.max(estimates ? ESTIMATED_BYTES : 0, ...fields.map(({ max_bytes: bytes }) => bytes)),
  };
}

function fieldsOf(keys: readonly KeyStrategy[]) {
  const parts = keys.flatMap((key): readonly KeyStrategy[] =>
    key.type === 'composite' ? (key.parts ?? []) : [key],
  );
  return parts.filter((part) => part.type === 'bodyField');
}

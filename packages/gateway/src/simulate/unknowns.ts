import type { Config } from '../config/config.ts';
import { strategyParts } from '../config/schema/rate-limit.ts';

/** What a format has of a request besides its line. */
const KNOWS: ReadonlyMap<string, string> = new Map([
  ['spillgate', 'neither headers nor queries, but the names of API keys'],
  ['combined', 'no headers but Referer and User-Agent'],
  ['caddy', 'no secrets: Caddy hides Authorization and Cookie'],
  ['envoy', 'few headers'],
  ['alb', 'no headers but User-Agent'],
]);

/** What a configuration asks of requests that logs of these formats do not say, in sentences. */
export function unknowns(config: Config, formats: Iterable<string>): readonly string[] {
  const kinds = new Set<string>(strategyParts(config.rate_limit).map(({ type }) => type));
  const seen = new Set(formats);
  const found: string[] = [];
  const isShown = ['header', 'cookie', 'queryParameter', 'jwtClaim'].filter((kind) => kinds.has(kind));
  if (isShown.length > 0) {
    const lacking = [...seen].flatMap((format) => {
      const knows = KNOWS.get(format);
      return knows === undefined ? [] : [`${format} has ${knows}`];
    });
    if (lacking.length > 0)
      found.push(`Keys of type ${isShown.join(', ')} may not be in the log: ${lacking.join('; ')}.`);
  }
  if (config.identity.jwt !== undefined) found.push('Tokens are not in the log: nobody shows one here.');
  if (config.identity.api_keys !== undefined && !seen.has('spillgate'))
    found.push("API keys are not in the log: only Spillgate's own log names them.");
  if (kinds.has('clientCertificate')) found.push('Client certificates are not in the log.');
  const hasSlots = Object.values(config.rate_limit.policies).some(
    ({ algorithm }) => algorithm === 'concurrency',
  );
  if (hasSlots && ['combined', 'pattern'].some((format) => seen.has(format)))
    found.push(
      'The log does not say how long requests took, so that they hold no slots of concurrency limits.',
    );
  if (config.rate_limit.external.enabled)
    found.push('External limits are not asked: the limits of the configuration decided instead.');
  return found;
}

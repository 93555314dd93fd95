import { declaredTwice } from '../survey/declarations.ts';
import type { Check } from './tree.ts';

/** Names that have yet to become distinct. The list only shrinks. */
const STILL_SHARED: ReadonlySet<string> = new Set([
  'Answer',
  'Backend',
  'Breaker',
  'BreakerOptions',
  'BreakerState',
  'ClientTls',
  'Connection',
  'Emitter',
  'Http1Connection',
  'Http1Exchange',
  'LimitsRequest',
  'NoAnswer',
  'Plan',
  'Question',
  'Refusal',
  'RequestHead',
  'State',
  'TlsOptions',
  'Waiting',
]);

/** One word means one thing: no class, interface, type or enum shares its name with another in either package. */
export const typeNamesAreDistinct: Check = (files) => {
  const sources = files.filter(({ path }) => /^packages\/[^/]+\/src\/.*\.ts$/.test(path));
  return [...declaredTwice(sources)]
    .filter(([name]) => !STILL_SHARED.has(name))
    .map(([name, [first, ...others]]) => {
      const elsewhere = others.map(({ path, line }) => `${path}:${line}`).join(', ');
      return `${first?.path}:${first?.line} declares ${name}, which is also declared at ${elsewhere}`;
    });
};

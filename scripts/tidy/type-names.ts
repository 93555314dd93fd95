import { declaredTwice } from '../survey/declarations.ts';
import type { Check } from './tree.ts';

/** One word means one thing: no class, interface, type or enum shares its name with another in either package. */
export const typeNamesAreDistinct: Check = (files) => {
  const sources = files.filter(({ path }) => /^packages\/[^/]+\/src\/.*\.ts$/.test(path));
  return [...declaredTwice(sources)].map(([name, [first, ...others]]) => {
    const elsewhere = others.map(({ path, line }) => `${path}:${line}`).join(', ');
    return `${first?.path}:${first?.line} declares ${name}, which is also declared at ${elsewhere}`;
  });
};

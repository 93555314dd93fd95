/** So many of all tries are enough to notice most mistakes; the rest runs with `npm run test:long`. */
const SHARE = 5;

/** How often something random is tried: a part of `full`, or with `LONG_TESTS=1` all of it. */
export function runs(full: number): number {
  return process.env['LONG_TESTS'] === '1' ? full : Math.ceil(full / SHARE);
}

import type { HeaderPair } from './rate-limit-headers.ts';

/** The headers of a response that may already have some of ours. */
export interface HeaderBag {
  /** The value so far, lines joined by commas. */
  get(name: string): string | undefined;
  set(name: string, value: string): void;
}

const SINGLE_LIMIT = 'X-RateLimit-';

/**
 * Adds rate limit headers to a response that is not ours and goes on. `RateLimit` and `RateLimit-Policy` are appended
 * to what an upstream or an earlier limiter said. `X-RateLimit-*` have room for one limit: the one with less left
 * speaks.
 */
export function appendHeaders(bag: HeaderBag, pairs: readonly HeaderPair[]): void {
  if (pairs.length === 0) return;
  const keepSingle = hasLessLeft(bag, pairs);
  for (const [name, value] of pairs) {
    if (isList(name)) bag.set(name, joined(bag.get(name), value));
    else if (!(keepSingle && name.startsWith(SINGLE_LIMIT))) bag.set(name, value);
  }
}

/** Gives our own answer its headers: lists are appended here too, everything else is ours. */
export function writeHeaders(bag: HeaderBag, pairs: readonly HeaderPair[]): void {
  for (const [name, value] of pairs) bag.set(name, isList(name) ? joined(bag.get(name), value) : value);
}

/** Fields that are lists: what is there stays, and ours comes after it. */
function isList(name: string): boolean {
  return name === 'RateLimit' || name === 'RateLimit-Policy' || name === 'Access-Control-Expose-Headers';
}

function joined(present: string | undefined, value: string): string {
  return present === undefined || present === '' ? value : `${present}, ${value}`;
}

function hasLessLeft(bag: HeaderBag, pairs: readonly HeaderPair[]): boolean {
  const present = bag.get('X-RateLimit-Remaining');
  if (present === undefined) return false;
  const ours = pairs.find(([name]) => name === 'X-RateLimit-Remaining')?.[1];
  // What is not a number stays too: it is not ours to correct.
  return ours !== undefined && !(Number(present) > Number(ours));
}

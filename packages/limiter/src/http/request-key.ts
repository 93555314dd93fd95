import { LimiterError, show } from '../errors.ts';
import type { AddressFacts } from './client-address.ts';
import { after, fromApplication, type Eventually } from './eventually.ts';

export type KeyValue = string | null | undefined;

/** Where one part of a key comes from: the client's address, a header, or a function of the framework's request. */
export type KeyPart<Request> =
  | 'address'
  | { readonly header: string }
  | ((request: Request) => KeyValue | Promise<KeyValue>);

/** Who is counted: one part, or several that count together (`[{ header: 'x-tenant' }, 'address']`). */
export type KeyOption<Request> = KeyPart<Request> | readonly KeyPart<Request>[];

/** What happens to a request without a key: it gets a 400, or it is counted by the address it came from. */
export type MissingKey = 'reject' | 'address';

/** What a key can be made of. */
export interface KeyFacts<Request> {
  readonly request: Request;
  readonly facts: AddressFacts;
  /** What a client is counted under by its address. */
  readonly addressKey: (facts: AddressFacts) => string | undefined;
}

/** What to tell a client that sent no key. A repeated header is no missing one: nothing stands in for it. */
export interface NoKey {
  readonly detail: string;
  readonly missing: boolean;
}

export type FoundKey = string | NoKey;

export function findKey<Request>(
  option: KeyOption<Request>,
  asked: KeyFacts<Request>,
  missingKey: MissingKey,
): Eventually<FoundKey> {
  const sought = isComposite(option) ? findParts(option, asked, []) : findPart(option, asked);
  if (missingKey === 'reject') return sought;
  return after(sought, (found) => {
    if (typeof found !== 'object') return ownKey(found);
    const address = found.missing ? asked.addressKey(asked.facts) : undefined;
    return address === undefined ? found : ADDRESS_MARK + address;
  });
}

/**
 * Several strings as one key. Every part carries its length, so no two lists of parts make the same key.
 *
 * @example
 * perUser.override(compositeKey(['acme', 'ann']), { average: 1000 });
 */
export function compositeKey(parts: readonly string[]): string {
  return parts.map((part) => `${part.length}:${part}`).join(',');
}

/** Set before an address that stands in for a missing key, so that nobody can send somebody's address as a key. */
const ADDRESS_MARK = '@';

function ownKey(key: string): string {
  return key.startsWith(ADDRESS_MARK) ? ADDRESS_MARK + key : key;
}

/** The parts after those that have been found. */
function findParts<Request>(
  parts: readonly KeyPart<Request>[],
  asked: KeyFacts<Request>,
  keys: string[],
): Eventually<FoundKey> {
  const part = parts[keys.length];
  if (part === undefined) return compositeKey(keys);
  return after(findPart(part, asked), (found) => {
    if (typeof found === 'object') return found;
    keys.push(found);
    return findParts(parts, asked, keys);
  });
}

function findPart<Request>(
  part: KeyPart<Request>,
  { request, facts, addressKey }: KeyFacts<Request>,
): Eventually<FoundKey> {
  if (part === 'address') return given(addressKey(facts), 'The address of the client is unknown.');
  if (typeof part === 'function') return after(fromApplication(part(request)), foundByFunction);
  const name = part.header.toLowerCase();
  const lines = facts.headerLines(name);
  if (lines.length > 1) {
    return { detail: `The header "${name}" may be sent only once.`, missing: false };
  }
  return given(lines[0], `The header "${name}" is missing; it says who is asking.`);
}

function foundByFunction(value: unknown): FoundKey {
  if (value !== undefined && value !== null && typeof value !== 'string') {
    throw new LimiterError(
      'INVALID_KEY',
      `The key function returned ${show(value)}; it has to return a string, or nothing: convert ids with String(id).`,
    );
  }
  return given(value, 'The request does not say who is asking.');
}

/** An empty value is none: as a key it would put everybody without one into one bucket. */
function given(value: KeyValue, detail: string): FoundKey {
  return value === undefined || value === null || value === '' ? { detail, missing: true } : value;
}

const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;

/** A key option that can be read later; anything else is a mistake that shows at start. */
export function requireKey<Request>(name: string, option: KeyOption<Request>): void {
  const parts: readonly unknown[] = isComposite(option) ? option : [option];
  if (parts.length > 0 && parts.every(isKeyPart)) return;
  throw new LimiterError(
    'INVALID_OPTION',
    `${name} is ${show(option)}; expected 'address', { header: 'x-api-key' }, a function of the request, or a list of these.`,
  );
}

function isComposite<Request>(option: KeyOption<Request>): option is readonly KeyPart<Request>[] {
  return Array.isArray(option);
}

function isKeyPart(part: unknown): boolean {
  if (part === 'address' || typeof part === 'function') return true;
  return (
    typeof part === 'object' &&
    part !== null &&
    'header' in part &&
    typeof part.header === 'string' &&
    HEADER_NAME.test(part.header)
  );
}

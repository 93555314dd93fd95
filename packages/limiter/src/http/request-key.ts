import { LimiterError, show } from '../errors.ts';
import type { AddressFacts } from './client-address.ts';
import { cookieValue, given, headerValue, queryValue, type FoundKey } from './key-values.ts';

export type KeyValue = string | null | undefined;

/** A part that is read from the request itself: the client's address, a header, a cookie, or a query parameter. */
export type ConstantKeyPart =
  | 'address'
  | { readonly header: string }
  | { readonly cookie: string }
  | { readonly query: string };

/** What is read of a request to find its key. */
export interface KeyFacts extends AddressFacts {
  /** The query of the target with its question mark, or empty. Left out: not known, so that no parameter is found. */
  readonly query?: (() => string) | undefined;
}

/** Where one part of a key comes from: the request itself, or a function of the framework's request. */
export type KeyPart<Request> = ConstantKeyPart | ((request: Request) => KeyValue | Promise<KeyValue>);

/** Who is counted: one part, or several that count together (`[{ header: 'x-tenant' }, 'address']`). */
export type KeyOption<Request> = KeyPart<Request> | readonly KeyPart<Request>[];

/** A key for which no function of the application is called. */
export type ConstantKey = ConstantKeyPart | readonly ConstantKeyPart[];

/** What happens to a request without a key: it gets a 400, or it is counted by the address it came from. */
export type MissingKey = 'reject' | 'address';

/** What a client is counted under by its address. */
export type AddressKey = (facts: AddressFacts) => string | undefined;

/** Finds the key of a request. */
export class KeyFinder<Request> {
  private readonly addressKey: AddressKey;
  private readonly missingKey: MissingKey;

  constructor(addressKey: AddressKey, missingKey: MissingKey) {
    this.addressKey = addressKey;
    this.missingKey = missingKey;
  }

  findSync(option: ConstantKey, facts: KeyFacts): FoundKey {
    if (!isComposite(option)) return this.orAddress(this.read(option, facts), facts);
    const keys: string[] = [];
    for (const part of option) {
      const found = this.read(part, facts);
      if (typeof found === 'object') return this.orAddress(found, facts);
      keys.push(found);
    }
    return this.orAddress(compositeKey(keys), facts);
  }

  async find(option: KeyOption<Request>, request: Request, facts: KeyFacts): Promise<FoundKey> {
    const keys: string[] = [];
    for (const part of isComposite(option) ? option : [option]) {
      const found =
        typeof part === 'function' ? foundByFunction(await part(request)) : this.read(part, facts);
      if (typeof found === 'object') return this.orAddress(found, facts);
      keys.push(found);
    }
    return this.orAddress(isComposite(option) ? compositeKey(keys) : (keys[0] ?? ''), facts);
  }

  private read(part: ConstantKeyPart, facts: KeyFacts): FoundKey {
    if (part === 'address') return given(this.addressKey(facts), 'The address of the client is unknown.');
    if ('cookie' in part) return cookieValue(facts.headerLines('cookie'), part.cookie);
    if ('query' in part) return queryValue(facts.query?.() ?? '', part.query);
    const name = part.header.toLowerCase();
    return headerValue(facts.headerLines(name), name);
  }

  private orAddress(found: FoundKey, facts: AddressFacts): FoundKey {
    if (this.missingKey === 'reject') return found;
    if (typeof found === 'string') return found.startsWith(ADDRESS_MARK) ? ADDRESS_MARK + found : found;
    const address = found.missing ? this.addressKey(facts) : undefined;
    return address === undefined ? found : ADDRESS_MARK + address;
  }
}

/** The prefix of an address that replaces a missing key, so that nobody can send someone's address as a key. */
const ADDRESS_MARK = '@';

/**
 * Several strings as one key. Every part carries its length, so no two lists of parts make the same key.
 *
 * @example
 * perUser.override(compositeKey(['acme', 'ann']), { average: 1000 });
 */
export function compositeKey(parts: readonly string[]): string {
  return parts.map((part) => `${part.length}:${part}`).join(',');
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

const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;

/** A key option that can be read later; anything else is a mistake that shows at start. */
export function requireKey<Request>(name: string, option: KeyOption<Request>): void {
  const parts: readonly unknown[] = isComposite(option) ? option : [option];
  if (parts.length > 0 && parts.every(isKeyPart)) return;
  throw new LimiterError(
    'INVALID_OPTION',
    `${name} is ${show(option)}; expected 'address', { header: 'x-api-key' }, { cookie: 'session' }, { query: 'tenant' }, a function of the request, or a list of these.`,
  );
}

/** Whether a key can be found without a function of the application. */
export function isConstantKey<Request>(option: KeyOption<Request>): option is ConstantKey {
  return isComposite(option) ? option.every(isConstantPart) : isConstantPart(option);
}

function isConstantPart<Request>(part: KeyPart<Request>): part is ConstantKeyPart {
  return typeof part !== 'function';
}

function isComposite<Part>(option: Part | readonly Part[]): option is readonly Part[] {
  return Array.isArray(option);
}

function isKeyPart(part: unknown): boolean {
  if (part === 'address' || typeof part === 'function') return true;
  if (typeof part !== 'object' || part === null) return false;
  const entries: readonly (readonly [string, unknown])[] = Object.entries(part);
  const [where, name] = entries[0] ?? [];
  if (entries.length > 1) return false;
  if (typeof name !== 'string' || name === '') return false;
  return where === 'query' || ((where === 'header' || where === 'cookie') && HEADER_NAME.test(name));
}

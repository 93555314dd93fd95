import { compositeKey, cookieValue, headerValue, queryValue } from 'spillgate/http';
import { lenientPath } from '../config/path-pattern.ts';
import { calledName, UNKNOWN_KEYS, type KeyNames } from '../config/schema/key-names.ts';
import { addressKeys, compositeParts, hashedKey, secretKey } from '../config/schema/key.ts';
import { KEY_CHALLENGE, TOKEN_CHALLENGE } from '../identity/identity.ts';
import { unusableField, type BodyFacts } from '../cost/body-fields.ts';
import type { RequestFacts } from './request-facts.ts';
import { segmentAt } from './rule-matcher.ts';
import { readsSecret, type KeyStrategy } from '../config/schema/rate-limit.ts';

type Composite = Extract<KeyStrategy, { readonly type: 'composite' }>;
type Part = NonNullable<Composite['parts']>[number];
type Header = Extract<KeyStrategy, { readonly type: 'header' }>;
type JwtClaim = Extract<KeyStrategy, { readonly type: 'jwtClaim' }>;
type Certificate = Extract<KeyStrategy, { readonly type: 'clientCertificate' }>;
type Replaceable = Extract<KeyStrategy, { readonly on_missing: unknown }>;

/** Where the path of the rule that matched has its parameters. */
export type PathParameters = ReadonlyMap<string, number>;

/** Why a request has no key, as its sender is told. */
export interface KeyProblem {
  readonly detail: string;
  /** Not there at all, so that something else may stand in for it. What is there twice is not missing. */
  readonly missing: boolean;
  /** It is about what the request costs, not about who is asking. */
  readonly invalidCost?: boolean | undefined;
  /** What would be accepted, where the client has to prove who it is: then its answer is a 401. */
  readonly challenge?: string | undefined;
}

/** Reads the key of a request. */
export interface KeyReader {
  /** The same for strategies that read the same. */
  readonly id: string;
  /** The key. Secrets are hashed: keys show up in logs, in Redis and for operators. */
  readonly read: (request: RequestFacts, parameters: PathParameters) => string | KeyProblem;
  /** The key for the external service, which has to know the secret behind it. */
  readonly ask: (request: RequestFacts, parameters: PathParameters) => string | KeyProblem;
  /** What `read` makes of a value that stands in the configuration. */
  readonly written: (value: string) => string;
  /** The key that an operator means: as `read` returns it, or an address of those who are counted together. */
  readonly called: (key: string) => string;
}

const UNKNOWN_ADDRESS: KeyProblem = { detail: 'The address of the client is unknown.', missing: true };

/** The prefix of an address that replaces a missing key, so that nobody can send someone's address as a key. */
const STAND_IN = '@';

interface ReaderOptions {
  /** Who is meant by what an operator or the configuration writes; default: nobody knows. */
  readonly keys?: KeyNames | undefined;
  /** IPv6 clients are counted by networks with a prefix of so many bits. */
  readonly ipv6Prefix: number;
  /** For rules with `lenient_path`: another spelling of a path must not be another key, either. */
  readonly lenient?: boolean | undefined;
}

export function keyReader(strategy: KeyStrategy, options: ReaderOptions): KeyReader {
  switch (strategy.type) {
    case 'global':
      return reader(`global ${strategy.global_key}`, () => strategy.global_key);
    case 'composite':
      return compositeReader(partsOf(strategy, options));
    default:
      return partReader(strategy, options);
  }
}

/** A key of another strategy than the one that a policy usually counts by: the same text is a different client. */
export function foreignKey({ id }: Pick<KeyReader, 'id'>, key: string): string {
  return STAND_IN + compositeKey([id, key]);
}

/** A value that nobody can mistake for one of ours. */
export function ownKey(value: string): string {
  return value.startsWith(STAND_IN) ? STAND_IN + value : value;
}

/** The address that is counted where there is no key. */
export function standIn({ client }: RequestFacts): string | undefined {
  return client.key === undefined ? undefined : STAND_IN + client.key;
}

function partReader(part: Part, { ipv6Prefix, lenient, keys = UNKNOWN_KEYS }: ReaderOptions): KeyReader {
  switch (part.type) {
    case 'clientIP': {
      const keyOf = addressKeys(ipv6Prefix);
      return {
        ...reader('clientIP', ({ client }) => client.key ?? UNKNOWN_ADDRESS),
        written: (value) => ownKey(keyOf(value)),
        called: keyOf,
      };
    }
    case 'pathParameter':
      return pathReader(`pathParameter ${part.name}`, lenient, (path, parameters) =>
        readParameter(part.name, path, parameters),
      );
    default:
      return orAddress(part, shownReader(part, keys));
  }
}

/** What a request shows or proves, and may leave out. */
function shownReader(part: Replaceable, keys: KeyNames): KeyReader {
  switch (part.type) {
    case 'jwtClaim':
      return part.verified ? verifiedClaimReader(part) : claimReader(part);
    case 'apiKey':
      return apiKeyReader(keys);
    case 'clientCertificate':
      return certificateReader(part);
    case 'bodyField':
      return reader(`bodyField ${part.name}`, ({ body }) => readBodyField(body, part.name));
    case 'cookie':
      return plainOrSecret(part, `cookie ${part.name}`, ({ headers }) =>
        cookieValue(headers.lines('cookie'), part.name),
      );
    case 'queryParameter':
      return plainOrSecret(part, `queryParameter ${part.name}`, ({ query }) => queryValue(query, part.name));
    default:
      return headerReader(part);
  }
}

type Read = KeyReader['read'];

function reader(id: string, read: Read): KeyReader {
  const own: Read = (request, parameters) => {
    const value = read(request, parameters);
    return typeof value === 'string' ? ownKey(value) : value;
  };
  return { id, read: own, ask: own, written: ownKey, called: itself };
}

/** Reads from the path, as the rule compares it. */
function pathReader(
  id: string,
  lenient: boolean | undefined,
  read: (path: string, parameters: PathParameters) => string | KeyProblem,
): KeyReader {
  if (lenient !== true) return reader(id, ({ path }, parameters) => read(path, parameters));
  return {
    ...reader(id, ({ path }, parameters) => read(lenientPath(path), parameters)),
    written: (value) => ownKey(lenientPath(value)),
  };
}

function headerReader(strategy: Header): KeyReader {
  const { header_name: name } = strategy;
  const lower = name.toLowerCase();
  return plainOrSecret(strategy, `header ${lower}`, ({ headers }) =>
    headerValue(headers.lines(lower), lower),
  );
}

/** The value itself, or its hash where it may be a secret. */
function plainOrSecret(strategy: KeyStrategy, id: string, read: Read): KeyReader {
  const plain = reader(id, read);
  if (!readsSecret(strategy)) return plain;
  return {
    ...plain,
    read: (request, parameters) => {
      const value = read(request, parameters);
      return typeof value === 'string' ? secretKey(value) : value;
    },
    written: hashedKey,
    called: hashedKey,
  };
}

function claimReader({ header_name: name, claim }: JwtClaim): KeyReader {
  const lower = name.toLowerCase();
  const missing = { detail: `The token in "${lower}" has no claim "${claim}".`, missing: true };
  return reader(`jwtClaim ${lower} ${claim}`, ({ headers }) => {
    const token = headerValue(headers.lines(lower), lower);
    return typeof token === 'string' ? (readClaim(token, claim) ?? missing) : token;
  });
}

/** Counted by their names; whoever has a secret in hand may call them by that, too. */
function apiKeyReader(keys: KeyNames): KeyReader {
  const called = (text: string): string => calledName(keys, text);
  return {
    ...reader(API_KEY, ({ identity }) => identity?.apiKey?.name ?? NO_API_KEY),
    written: (value) => ownKey(called(value)),
    called,
  };
}

export const API_KEY = 'apiKey';

const NO_API_KEY: KeyProblem = {
  detail: 'An API key is missing; it says who is asking.',
  missing: true,
  challenge: KEY_CHALLENGE,
};

/** Of a token that was checked. One that is not valid, where it gets no 401, is counted by the address. */
function verifiedClaimReader({ claim }: JwtClaim): KeyReader {
  const absent = {
    detail: 'A token is missing; it says who is asking.',
    missing: true,
    challenge: TOKEN_CHALLENGE,
  };
  const missing = { detail: `The token has no claim "${claim}".`, missing: true, challenge: TOKEN_CHALLENGE };
  const found = reader(`verifiedClaim ${claim}`, ({ identity }) =>
    identity?.token === undefined ? absent : (identity.token.claims.get(claim) ?? missing),
  );
  const read: Read = (request, parameters) =>
    request.identity?.invalidToken === true
      ? (standIn(request) ?? UNKNOWN_ADDRESS)
      : found.read(request, parameters);
  return { ...found, read, ask: read };
}

function certificateReader({ field }: Certificate): KeyReader {
  const missing = { detail: 'A client certificate is missing; it says who is asking.', missing: true };
  const found = reader(`clientCertificate ${field}`, ({ certificate }) => certificate?.[field] ?? missing);
  if (field === 'subject') return found;
  return { ...found, written: fingerprintKey, called: fingerprintKey };
}

/** A fingerprint as it is counted, from how `openssl x509 -fingerprint` writes it. */
function fingerprintKey(written: string): string {
  return /^[\da-f:]{64,95}$/i.test(written) ? written.replaceAll(':', '').toLowerCase() : written;
}

function readParameter(name: string, path: string, parameters: PathParameters): string | KeyProblem {
  const at = parameters.get(name);
  const value = at === undefined ? '' : segmentAt(path, at);
  return value === '' ? { detail: `The path has no "${name}".`, missing: true } : value;
}

/** A text at the top of the body, or why there is none. */
function readBodyField(body: BodyFacts | undefined, name: string): string | KeyProblem {
  if (body?.repeated.has(name) === true) {
    return { detail: `The body says "${name}" more than once.`, missing: false };
  }
  // What cannot be read is not missing: whoever compresses a body does not choose who is counted.
  if (body?.unreadable !== undefined) return { detail: body.unreadable, missing: false };
  if (body?.unusable.has(name) === true) return { detail: unusableField(name), missing: false };
  const missing = `The body has no text "${name}" at its top, where it has to come early.`;
  return body?.fields.get(name) ?? { detail: missing, missing: true };
}

/** Counts by the address where the strategy says so. */
function orAddress({ on_missing: onMissing }: Replaceable, found: KeyReader): KeyReader {
  if (onMissing === 'reject') return found;
  const replaced =
    (read: Read): Read =>
    (request, parameters) => {
      const key = read(request, parameters);
      if (typeof key === 'string' || !key.missing) return key;
      return standIn(request) ?? UNKNOWN_ADDRESS;
    };
  return { ...found, read: replaced(found.read), ask: replaced(found.ask) };
}

function partsOf(
  { header_name: name, path_prefix: withPrefix, parts = [] }: Composite,
  options: ReaderOptions,
): readonly KeyReader[] {
  if (name === undefined) return parts.map((part) => partReader(part, options));
  const header = headerReader({ type: 'header', header_name: name, on_missing: 'reject' });
  return withPrefix
    ? [header, pathReader('pathPrefix', options.lenient, (path) => segmentAt(path, 0))]
    : [header];
}

/** Every part carries its length, so that no two lists of parts make the same key. */
function compositeReader(parts: readonly KeyReader[]): KeyReader {
  const joined =
    (how: 'read' | 'ask'): Read =>
    (request, parameters) => {
      const keys: string[] = [];
      for (const part of parts) {
        const key = part[how](request, parameters);
        if (typeof key !== 'string') return key;
        keys.push(key);
      }
      return compositeKey(keys);
    };
  const id = `composite ${compositeKey(parts.map((part) => part.id))}`;
  const mapped =
    (how: 'written' | 'called') =>
    (key: string): string => {
      const given = compositeParts(key);
      if (given?.length !== parts.length) return key;
      return compositeKey(given.map((text, at) => parts[at]?.[how](text) ?? text));
    };
  return {
    id,
    read: joined('read'),
    ask: joined('ask'),
    written: mapped('written'),
    called: mapped('called'),
  };
}

export function itself(key: string): string {
  return key;
}

/**
 * A claim of a JSON Web Token (RFC 7519) as text, or undefined if there is none. The signature is not checked: whatever
 * uses this has something in front of the gateway that checks it.
 */
function readClaim(header: string, claim: string): string | undefined {
  const token = /^bearer +/i.exec(header);
  const parts = (token === null ? header : header.slice(token[0].length)).split('.');
  const payload = parts.length === 3 ? parts[1] : undefined;
  if (payload === undefined) return undefined;
  const value = claimOf(parsed(Buffer.from(payload, 'base64url').toString('utf8')), claim);
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : undefined;
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Only what the token itself says: `constructor` is not a claim of every token. */
function claimOf(payload: unknown, claim: string): unknown {
  if (typeof payload !== 'object' || payload === null || !Object.hasOwn(payload, claim)) return undefined;
  return Reflect.get(payload, claim);
}

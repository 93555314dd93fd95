import { createHash } from 'node:crypto';
import { errors, jwtVerify, type JWTVerifyOptions } from 'jose';
import type { JwtConfig } from '../../config/schema/identity.ts';
import type { VerifiedToken } from '../identity.ts';
import type { KeySet, KeySource } from './key-set.ts';
import { readToken, type SignedToken, type TokenRejection } from './signed-token.ts';

export interface TokenVerifierOptions {
  readonly settings: Pick<
    JwtConfig,
    'issuer' | 'audience' | 'algorithms' | 'type' | 'leeway' | 'max_token_bytes' | 'cache_size'
  >;
  readonly keys: KeySource;
  /** The claims that somebody asks for. */
  readonly claims: readonly string[];
  /** Milliseconds since 1970. Default: the system's clock. */
  readonly now?: (() => number) | undefined;
}

/** A token that was checked, and what that depends on. */
interface CheckedToken {
  readonly token: VerifiedToken;
  readonly keys: KeySet;
  readonly untilMs: number;
}

/** A claim is a key; longer texts are none. */
const MAX_CLAIM_LENGTH = 1024;

/** Checks tokens, and remembers those that are valid until they expire or the keys change. */
export class TokenVerifier {
  private readonly options: TokenVerifierOptions;
  private readonly now: () => number;
  /** By the hash of the token; the one that was not used for the longest time comes first. */
  private readonly checked = new Map<string, CheckedToken>();

  constructor(options: TokenVerifierOptions) {
    this.options = options;
    this.now = options.now ?? Date.now;
  }

  get remembered(): number {
    return this.checked.size;
  }

  /** At once for tokens that are remembered, or not even well-formed. Never rejects. */
  verify(token: string): VerifiedToken | TokenRejection | Promise<VerifiedToken | TokenRejection> {
    const { max_token_bytes: maxBytes, algorithms } = this.options.settings;
    if (token.length > maxBytes) return 'malformed';
    const digest = createHash('sha256').update(token).digest('base64');
    const known = this.recall(digest);
    if (known !== undefined) return known;
    const read = readToken(token, { maxBytes, algorithms });
    return typeof read === 'string' ? read : this.check(token, read, digest);
  }

  private recall(digest: string): VerifiedToken | TokenRejection | undefined {
    const known = this.checked.get(digest);
    if (known === undefined) return undefined;
    this.checked.delete(digest);
    if (known.keys !== this.options.keys.current()) return undefined;
    if (this.now() >= known.untilMs) return 'expired';
    this.checked.set(digest, known);
    return known.token;
  }

  private async check(
    token: string,
    read: SignedToken,
    digest: string,
  ): Promise<VerifiedToken | TokenRejection> {
    const { keys: source } = this.options;
    const first = source.current() ?? (await source.newer(undefined));
    if (first === undefined) return 'keysUnavailable';
    let keys = first;
    let rejection = await this.rejectionOf(token, keys);
    if (rejection === 'unknownKey') {
      const newer = await source.newer(keys);
      if (newer === undefined) return rejection;
      keys = newer;
      rejection = await this.rejectionOf(token, keys);
    }
    if (rejection !== undefined) return rejection;
    const verified: VerifiedToken = { claims: textClaims(read.claims, this.options.claims) };
    this.remember(digest, { token: verified, keys, untilMs: this.endOf(read) });
    return verified;
  }

  /** Why the token is not valid; undefined if it is. */
  private async rejectionOf(token: string, keys: KeySet): Promise<TokenRejection | undefined> {
    const { issuer, audience, algorithms, type, leeway } = this.options.settings;
    const options: JWTVerifyOptions = {
      issuer: [...issuer],
      algorithms: [...algorithms],
      clockTolerance: leeway / 1000,
      requiredClaims: ['exp'],
      currentDate: new Date(this.now()),
      ...(audience.length === 0 ? {} : { audience: [...audience] }),
      ...(type === undefined ? {} : { typ: type }),
    };
    try {
      await jwtVerify(token, keys.find, options);
      return undefined;
    } catch (failure) {
      return rejectionBy(failure);
    }
  }

  private endOf({ expiresAtSeconds }: SignedToken): number {
    return expiresAtSeconds * 1000 + this.options.settings.leeway;
  }

  private remember(digest: string, checked: CheckedToken): void {
    const { cache_size: max } = this.options.settings;
    if (max === 0) return;
    this.checked.set(digest, checked);
    if (this.checked.size <= max) return;
    const oldest = this.checked.keys().next().value;
    if (oldest !== undefined) this.checked.delete(oldest);
  }
}

const BY_CLAIM: ReadonlyMap<string, TokenRejection> = new Map([
  ['iss', 'issuer'],
  ['aud', 'audience'],
  ['typ', 'type'],
  ['nbf', 'notYetValid'],
]);

function rejectionBy(failure: unknown): TokenRejection {
  if (failure instanceof errors.JWTExpired) return 'expired';
  if (failure instanceof errors.JWTClaimValidationFailed) return BY_CLAIM.get(failure.claim) ?? 'claims';
  if (failure instanceof errors.JWSSignatureVerificationFailed) return 'signature';
  if (failure instanceof errors.JWKSNoMatchingKey) return 'unknownKey';
  // Without a name there is no way to know which key is meant; trying them all is work that anybody could cause.
  if (failure instanceof errors.JWKSMultipleMatchingKeys) return 'unknownKey';
  if (failure instanceof errors.JOSEAlgNotAllowed || failure instanceof errors.JOSENotSupported)
    return 'algorithm';
  if (failure instanceof errors.JWTInvalid) return 'claims';
  return 'malformed';
}

/** What can be counted by: texts and numbers. Only of the token itself: `constructor` is not a claim of every token. */
function textClaims(claims: SignedToken['claims'], wanted: readonly string[]): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  for (const name of wanted) {
    const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
    const text = typeof value === 'number' ? String(value) : value;
    if (typeof text === 'string' && text !== '' && text.length <= MAX_CLAIM_LENGTH) texts.set(name, text);
  }
  return texts;
}

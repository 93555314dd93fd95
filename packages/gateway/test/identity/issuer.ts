// An issuer of tokens: keys, tokens, and everything that somebody else could put in their place.
import {
  constants,
  createHmac,
  generateKeyPairSync,
  sign,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto';

export const ISSUER = 'https://issuer.example';
export const AUDIENCE = 'https://api.example';
/** When all tokens are looked at, in seconds since 1970. */
export const NOW_SECONDS = 1_900_000_000;

export interface Signer {
  readonly kid: string;
  readonly algorithm: 'RS256' | 'ES256' | 'EdDSA' | 'PS256';
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly jwk: JsonWebKey;
}

export function signer(kid: string, algorithm: Signer['algorithm']): Signer {
  const { privateKey, publicKey } = pairFor(algorithm);
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid, alg: algorithm, use: 'sig' };
  return { kid, algorithm, privateKey, publicKey, jwk };
}

function pairFor(algorithm: Signer['algorithm']) {
  if (algorithm === 'ES256') return generateKeyPairSync('ec', { namedCurve: 'P-256' });
  if (algorithm === 'EdDSA') return generateKeyPairSync('ed25519');
  return generateKeyPairSync('rsa', { modulusLength: 2048 });
}

export function jwksOf(...signers: readonly Signer[]): string {
  return JSON.stringify({ keys: signers.map(({ jwk }) => jwk) });
}

export type Claims = Readonly<Record<string, unknown>>;

export const CLAIMS: Claims = {
  iss: ISSUER,
  aud: AUDIENCE,
  sub: 'ann',
  exp: NOW_SECONDS + 300,
  iat: NOW_SECONDS,
};

/** A token as its issuer makes it; header and claims over those of a good one. */
export function tokenOf(by: Signer, claims: Claims = {}, header: Claims = {}): string {
  return signed(by, JSON.stringify({ alg: by.algorithm, kid: by.kid, typ: 'JWT', ...header }), {
    ...CLAIMS,
    ...claims,
  });
}

/** The same with the text of the header, and claims or their text. */
export function signed(by: Signer, header: string, claims: Claims | string): string {
  const payload = typeof claims === 'string' ? claims : JSON.stringify(claims);
  const input = `${encoded(header)}.${encoded(payload)}`;
  return `${input}.${signatureOf(by, input)}`;
}

export function encoded(text: string | Buffer): string {
  return Buffer.from(text).toString('base64url');
}

export function signatureOf({ algorithm, privateKey }: Signer, input: string): string {
  const bytes = Buffer.from(input);
  const key = { key: privateKey, dsaEncoding: 'ieee-p1363' as const };
  if (algorithm === 'EdDSA') return encoded(sign(null, bytes, privateKey));
  if (algorithm === 'PS256') {
    const options = { key: privateKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 };
    return encoded(sign('sha256', bytes, options));
  }
  return encoded(sign('sha256', bytes, key));
}

/** A signature with a secret that everybody knows: the public key. */
export function macToken(secret: string | Buffer, header: Claims, claims: Claims = CLAIMS): string {
  const input = `${encoded(JSON.stringify({ alg: 'HS256', typ: 'JWT', ...header }))}.${encoded(JSON.stringify(claims))}`;
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
}

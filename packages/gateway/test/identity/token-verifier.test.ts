import { describe, expect, test } from 'vitest';
import { PlacedKeys } from '../../src/identity/jwt/key-set.ts';
import type { TokenRejection } from '../../src/identity/jwt/signed-token.ts';
import { TokenVerifier, type TokenVerifierOptions } from '../../src/identity/jwt/token-verifier.ts';
import {
  AUDIENCE,
  CLAIMS,
  encoded,
  ISSUER,
  jwksOf,
  macToken,
  NOW_SECONDS,
  signatureOf,
  signed,
  signer,
  tokenOf,
} from './issuer.ts';

const rsa = signer('rsa-1', 'RS256');
const ec = signer('ec-1', 'ES256');
const ed = signer('ed-1', 'EdDSA');
/** Somebody else's keys, under the same names. */
const forgedRsa = signer('rsa-1', 'RS256');
const forgedEc = signer('ec-1', 'ES256');

const SETTINGS: TokenVerifierOptions['settings'] = {
  issuer: [ISSUER],
  audience: [AUDIENCE],
  algorithms: ['RS256', 'ES256', 'EdDSA'],
  type: undefined,
  leeway: 30_000,
  max_token_bytes: 8192,
  cache_size: 100,
};

interface VerifierSetup {
  readonly settings?: Partial<TokenVerifierOptions['settings']>;
  readonly keys?: PlacedKeys;
  readonly clock?: { seconds: number };
  readonly claims?: readonly string[];
}

function verifierOf({ settings, keys, clock, claims = ['sub'] }: VerifierSetup = {}): TokenVerifier {
  return new TokenVerifier({
    settings: { ...SETTINGS, ...settings },
    keys: keys ?? new PlacedKeys(jwksOf(rsa, ec, ed)),
    claims,
    now: () => (clock?.seconds ?? NOW_SECONDS) * 1000,
  });
}

/** The subject of a token that is accepted, or why it is not. */
async function subjectIn(token: string, verifier = verifierOf()): Promise<string | undefined> {
  const found = await verifier.verify(token);
  return typeof found === 'string' ? `rejected: ${found}` : found.claims.get('sub');
}

describe('a token of the issuer is accepted', () => {
  test.each<[string, string]>([
    ['RS256', tokenOf(rsa)],
    ['ES256', tokenOf(ec)],
    ['EdDSA', tokenOf(ed)],
    ['for several audiences', tokenOf(rsa, { aud: ['https://other.example', AUDIENCE] })],
    ['without a kid, where one key fits', tokenOf(ec, {}, { kid: undefined })],
    ['that expired within the leeway', tokenOf(rsa, { exp: NOW_SECONDS - 29 })],
    ['that begins within the leeway', tokenOf(rsa, { nbf: NOW_SECONDS + 29 })],
    ['with a certificate thumbprint, which is not looked at', tokenOf(rsa, {}, { x5t: 'abc' })],
    ['with a place of keys, which is not looked at', tokenOf(rsa, {}, { jku: 'https://evil.example/jwks' })],
  ])('%s', async (_, token) => {
    expect(await subjectIn(token)).toBe('ann');
  });

  test('with an offset of the clock up to the leeway, and not one second more', async () => {
    const verifier = verifierOf();

    expect(await subjectIn(tokenOf(rsa, { exp: NOW_SECONDS - 29 }), verifier)).toBe('ann');
    expect(await subjectIn(tokenOf(rsa, { exp: NOW_SECONDS - 30 }), verifier)).toBe('rejected: expired');
    expect(await subjectIn(tokenOf(rsa, { nbf: NOW_SECONDS + 30 }), verifier)).toBe('ann');
    expect(await subjectIn(tokenOf(rsa, { nbf: NOW_SECONDS + 31 }), verifier)).toBe('rejected: notYetValid');
  });
});

const GOOD = tokenOf(rsa);
const [HEADER = '', PAYLOAD = '', SIGNATURE = ''] = GOOD.split('.');
const publicPem = rsa.publicKey.export({ format: 'pem', type: 'spki' });
const publicDer = rsa.publicKey.export({ format: 'der', type: 'spki' });
const header = (more: object): string => JSON.stringify({ alg: 'RS256', kid: 'rsa-1', typ: 'JWT', ...more });
const withKid = (kid: unknown): string => tokenOf(forgedRsa, {}, { kid });
const changedPayload = encoded(JSON.stringify({ ...CLAIMS, sub: 'root' }));

const REJECTED: readonly (readonly [name: string, token: string, why: TokenRejection])[] = [
  ['alg none without a signature', `${encoded('{"alg":"none"}')}.${PAYLOAD}.`, 'malformed'],
  ['alg none with a signature', `${encoded('{"alg":"none"}')}.${PAYLOAD}.${SIGNATURE}`, 'algorithm'],
  ['alg None', `${encoded('{"alg":"None"}')}.${PAYLOAD}.${SIGNATURE}`, 'algorithm'],
  ['alg nOnE', `${encoded('{"alg":"nOnE"}')}.${PAYLOAD}.${SIGNATURE}`, 'algorithm'],
  ['alg of another case', signed(rsa, header({ alg: 'rs256' }), CLAIMS), 'algorithm'],
  ['no alg', signed(rsa, '{"kid":"rsa-1"}', CLAIMS), 'algorithm'],
  ['alg null', signed(rsa, header({ alg: null }), CLAIMS), 'algorithm'],
  ['alg a list', signed(rsa, header({ alg: ['RS256'] }), CLAIMS), 'algorithm'],
  ['an algorithm that is not in the list', signed(rsa, header({ alg: 'RS512' }), CLAIMS), 'algorithm'],
  [
    'PS256 with a key for RS256',
    signed({ ...rsa, algorithm: 'PS256' }, header({ alg: 'PS256' }), CLAIMS),
    'algorithm',
  ],
  ['key confusion: HS256 with the public key as PEM', macToken(publicPem, { kid: 'rsa-1' }), 'algorithm'],
  ['key confusion: HS256 with the public key as DER', macToken(publicDer, { kid: 'rsa-1' }), 'algorithm'],
  ['key confusion: HS256 with the JWK', macToken(JSON.stringify(rsa.jwk), { kid: 'rsa-1' }), 'algorithm'],
  [
    'key confusion: HS256 with the modulus',
    macToken(Buffer.from(String(rsa.jwk.n), 'base64url'), { kid: 'rsa-1' }),
    'algorithm',
  ],
  ['HS256 with an empty secret', macToken('', { kid: 'rsa-1' }), 'algorithm'],
  ['RS256 with the kid of an EC key', tokenOf(rsa, {}, { kid: 'ec-1' }), 'unknownKey'],
  ['ES256 with the kid of an RSA key', tokenOf(ec, {}, { kid: 'rsa-1' }), 'unknownKey'],
  ['an HMAC that says RS256', macToken(publicPem, { alg: 'RS256', kid: 'rsa-1' }), 'signature'],
  ['signed by somebody else', tokenOf(forgedRsa), 'signature'],
  ['signed by somebody else with ES256', tokenOf(forgedEc), 'signature'],
  [
    'an ES256 signature of zeros',
    `${encoded(JSON.stringify({ alg: 'ES256', kid: 'ec-1' }))}.${PAYLOAD}.${encoded(Buffer.alloc(64))}`,
    'signature',
  ],
  ['an ES256 signature in DER', derSigned(), 'signature'],
  ['the signature of another token', `${HEADER}.${changedPayload}.${SIGNATURE}`, 'signature'],
  ['no signature', `${HEADER}.${PAYLOAD}.`, 'malformed'],
  ['half a signature', `${HEADER}.${PAYLOAD}.${SIGNATURE.slice(0, 169)}`, 'malformed'],
  [
    'a byte less of the signature',
    `${HEADER}.${PAYLOAD}.${encoded(Buffer.from(SIGNATURE, 'base64url').subarray(1))}`,
    'signature',
  ],
  ['another issuer', tokenOf(rsa, { iss: 'https://evil.example' }), 'issuer'],
  ['the issuer with a slash', tokenOf(rsa, { iss: `${ISSUER}/` }), 'issuer'],
  ['the issuer in capitals', tokenOf(rsa, { iss: ISSUER.toUpperCase() }), 'issuer'],
  ['the issuer in a list', tokenOf(rsa, { iss: [ISSUER] }), 'issuer'],
  ['no issuer', tokenOf(rsa, { iss: undefined }), 'issuer'],
  ['another audience', tokenOf(rsa, { aud: 'https://other.example' }), 'audience'],
  [
    'other audiences',
    tokenOf(rsa, { aud: ['https://other.example', `${AUDIENCE}.evil.example`] }),
    'audience',
  ],
  ['no audience', tokenOf(rsa, { aud: undefined }), 'audience'],
  ['an audience that is an object', tokenOf(rsa, { aud: { 0: AUDIENCE } }), 'audience'],
  ['expired', tokenOf(rsa, { exp: NOW_SECONDS - 31 }), 'expired'],
  ['expired long ago', tokenOf(rsa, { exp: 1 }), 'expired'],
  ['no end', tokenOf(rsa, { exp: undefined }), 'claims'],
  ['an end that is a text', tokenOf(rsa, { exp: String(NOW_SECONDS + 300) }), 'claims'],
  [
    'an end of infinity',
    signed(rsa, header({}), JSON.stringify(CLAIMS).replace(/"exp":\d+/, '"exp":1e999')),
    'claims',
  ],
  ['an end that is null', tokenOf(rsa, { exp: null }), 'claims'],
  ['not yet valid', tokenOf(rsa, { nbf: NOW_SECONDS + 31 }), 'notYetValid'],
  ['a beginning that is a text', tokenOf(rsa, { nbf: '0' }), 'notYetValid'],
  ['huge', tokenOf(rsa, { padding: 'x'.repeat(10_000) }), 'malformed'],
  ['huge, of nothing but dots', '.'.repeat(8192), 'malformed'],
  ['kid: a path', withKid('../../../../etc/passwd'), 'unknownKey'],
  ['kid: /dev/null', withKid('/dev/null'), 'unknownKey'],
  ['kid: SQL', withKid("' UNION SELECT 'key' --"), 'unknownKey'],
  ['kid: a URL', withKid('https://evil.example/key'), 'unknownKey'],
  ['kid: a command', withKid('rsa-1; id'), 'unknownKey'],
  ['kid: NUL behind it', withKid('rsa-1\u0000'), 'unknownKey'],
  ['kid: __proto__', withKid('__proto__'), 'unknownKey'],
  ['kid: constructor', withKid('constructor'), 'unknownKey'],
  ['kid: empty', withKid(''), 'malformed'],
  ['kid: a number', withKid(1), 'malformed'],
  ['kid: a list', withKid(['rsa-1']), 'malformed'],
  ['kid: an object', withKid({ toString: 'rsa-1' }), 'malformed'],
  ['kid: null', withKid(null), 'malformed'],
  ['kid: 257 characters', withKid('k'.repeat(257)), 'malformed'],
  ['kid: 10 kB', withKid('k'.repeat(10_000)), 'malformed'],
  ['jwk: a key of its own', tokenOf(forgedRsa, {}, { jwk: forgedRsa.jwk }), 'signature'],
  [
    'jwk: a key of its own without a kid',
    tokenOf(forgedRsa, {}, { jwk: forgedRsa.jwk, kid: undefined }),
    'signature',
  ],
  [
    'jwk: a key of its own under another name',
    tokenOf(forgedRsa, {}, { jwk: forgedRsa.jwk, kid: 'evil' }),
    'unknownKey',
  ],
  ['jku: keys of its own', tokenOf(forgedRsa, {}, { jku: 'https://evil.example/jwks' }), 'signature'],
  [
    'x5u: a certificate of its own',
    tokenOf(forgedRsa, {}, { x5u: 'https://evil.example/cert' }),
    'signature',
  ],
  ['x5c: a certificate of its own', tokenOf(forgedRsa, {}, { x5c: ['MIIB'] }), 'signature'],
  ['crit: an extension', tokenOf(rsa, {}, { crit: ['exp'], exp: 1 }), 'malformed'],
  ['crit: b64', tokenOf(rsa, {}, { crit: ['b64'], b64: false }), 'malformed'],
  ['crit: empty', tokenOf(rsa, {}, { crit: [] }), 'malformed'],
  ['b64 without crit', tokenOf(rsa, {}, { b64: false }), 'malformed'],
  ['nested: a token in a token', signed(rsa, header({ cty: 'JWT' }), GOOD), 'malformed'],
  ['nested: a token as a JSON text', signed(rsa, header({ cty: 'JWT' }), JSON.stringify(GOOD)), 'malformed'],
  ['encrypted: five parts', `${HEADER}.${PAYLOAD}.${PAYLOAD}.${PAYLOAD}.${SIGNATURE}`, 'malformed'],
  ['a claim twice', signed(rsa, header({}), `{"sub":"root",${JSON.stringify(CLAIMS).slice(1)}`), 'malformed'],
  [
    'a claim twice, once escaped',
    signed(rsa, header({}), `{"\\u0073ub":"root",${JSON.stringify(CLAIMS).slice(1)}`),
    'malformed',
  ],
  ['alg twice', signed(rsa, '{"alg":"none","alg":"RS256","kid":"rsa-1"}', CLAIMS), 'malformed'],
  [
    '__proto__ in the claims',
    signed(rsa, header({}), `{"__proto__":{"a":1},${JSON.stringify(CLAIMS).slice(1)}`),
    'malformed',
  ],
  ['claims that are a list', signed(rsa, header({}), '[]'), 'malformed'],
  ['claims that are null', signed(rsa, header({}), 'null'), 'malformed'],
  ['claims that are not JSON', signed(rsa, header({}), '{"sub":'), 'malformed'],
  [
    'claims that nest a thousand deep',
    signed(rsa, header({}), `{"a":${'['.repeat(1000)}${']'.repeat(1000)}}`),
    'malformed',
  ],
  ['claims with a BOM', signed(rsa, header({}), `\ufeff${JSON.stringify(CLAIMS)}`), 'malformed'],
  ['claims that are not UTF-8', badUtf8(), 'malformed'],
  ['base64 with padding', `${HEADER}.${PAYLOAD}.${SIGNATURE}==`, 'malformed'],
  ['base64 of the other alphabet', standardAlphabet(), 'malformed'],
  ['base64 with bits behind the end', looseBits(), 'malformed'],
  ['a line break inside', `${HEADER}.${PAYLOAD.slice(0, 9)}\n${PAYLOAD.slice(9)}.${SIGNATURE}`, 'malformed'],
  ['a space inside', `${HEADER}. ${PAYLOAD}.${SIGNATURE}`, 'malformed'],
  ['data behind the end', `${GOOD}.`, 'malformed'],
  ['a fourth part', `${GOOD}.e30`, 'malformed'],
  ['a line behind the end', `${GOOD}\n`, 'malformed'],
  ['two parts', `${HEADER}.${PAYLOAD}`, 'malformed'],
  ['one part', HEADER, 'malformed'],
  [
    'the JSON form of a signature',
    JSON.stringify({ protected: HEADER, payload: PAYLOAD, signature: SIGNATURE }),
    'malformed',
  ],
  ['a header that is not JSON', signed(rsa, 'alg=RS256', CLAIMS), 'malformed'],
];

function derSigned(): string {
  const input = `${encoded(JSON.stringify({ alg: 'ES256', kid: 'ec-1' }))}.${PAYLOAD}`;
  const raw = Buffer.from(signatureOf(ec, input), 'base64url');
  const integer = (bytes: Buffer): Buffer => Buffer.concat([Buffer.from([2, 33, 0]), bytes]);
  const body = Buffer.concat([integer(raw.subarray(0, 32)), integer(raw.subarray(32))]);
  return `${input}.${encoded(Buffer.concat([Buffer.from([0x30, body.length]), body]))}`;
}

function badUtf8(): string {
  const bytes = Buffer.concat([
    Buffer.from(`{"x":"`),
    Buffer.from([0xff]),
    Buffer.from(`",${JSON.stringify(CLAIMS).slice(1)}`),
  ]);
  const input = `${encoded(header({}))}.${encoded(bytes)}`;
  return `${input}.${signatureOf(rsa, input)}`;
}

/** The good token with `+` and `/`, which decoders often take for `-` and `_`. */
function standardAlphabet(): string {
  for (let at = 0; ; at += 1) {
    const token = tokenOf(rsa, { jti: at });
    const [first = '', second = '', third = ''] = token.split('.');
    if (/[-_]/.test(third)) return `${first}.${second}.${third.replaceAll('-', '+').replaceAll('_', '/')}`;
  }
}

/** The same bytes for a decoder that forgives: the last character of 256 bytes has four bits that nobody reads. */
function looseBits(): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const last = alphabet.indexOf(SIGNATURE.at(-1) ?? '');
  return `${HEADER}.${PAYLOAD}.${SIGNATURE.slice(0, -1)}${alphabet[last + 1]}`;
}

describe('whatever is wrong with a token, it is not accepted', () => {
  test.each(REJECTED)('%s', async (_, token, why) => {
    expect(await subjectIn(token)).toBe(`rejected: ${why}`);
  });

  test('of all of them none is accepted, also where nothing but the signature counts', async () => {
    const lax = verifierOf({ settings: { audience: [] } });
    const outcomes = await Promise.all(REJECTED.map(async ([, token]) => subjectIn(token, lax)));

    expect(REJECTED.length).toBeGreaterThanOrEqual(40);
    const aboutAudience = REJECTED.filter(([, , why]) => why === 'audience').length;
    expect(outcomes.filter((outcome) => outcome?.startsWith('rejected: ') !== true)).toHaveLength(
      aboutAudience,
    );
  });

  test('a type that is asked for has to be there', async () => {
    const verifier = verifierOf({ settings: { type: 'at+jwt' } });

    expect(await subjectIn(tokenOf(rsa, {}, { typ: 'at+jwt' }), verifier)).toBe('ann');
    expect(await subjectIn(tokenOf(rsa), verifier)).toBe('rejected: type');
    expect(await subjectIn(tokenOf(rsa, {}, { typ: undefined }), verifier)).toBe('rejected: type');
  });

  test('without a kid nobody guesses which of several keys is meant', async () => {
    const other = signer('rsa-2', 'RS256');
    const verifier = verifierOf({ keys: new PlacedKeys(jwksOf(rsa, other)) });

    expect(await subjectIn(tokenOf(other), verifier)).toBe('ann');
    expect(await subjectIn(tokenOf(other, {}, { kid: undefined }), verifier)).toBe('rejected: unknownKey');
  });
});

describe('tokens that were checked are remembered', () => {
  test('until they expire', async () => {
    const clock = { seconds: NOW_SECONDS };
    const verifier = verifierOf({ clock });
    const token = tokenOf(rsa, { exp: NOW_SECONDS + 10 });
    await verifier.verify(token);

    expect(verifier.verify(token)).toMatchObject({ claims: new Map([['sub', 'ann']]) });
    clock.seconds = NOW_SECONDS + 39;
    expect(verifier.verify(token)).toMatchObject({ claims: new Map([['sub', 'ann']]) });
    clock.seconds = NOW_SECONDS + 40;
    expect(verifier.verify(token)).toBe('expired');
    expect(verifier.remembered).toBe(0);
    expect(await verifier.verify(token)).toBe('expired');
  });

  test('until the keys change', async () => {
    const keys = new PlacedKeys(jwksOf(rsa, ec));
    const verifier = verifierOf({ keys });
    const [ofRsa, ofEc] = [tokenOf(rsa), tokenOf(ec)];
    await Promise.all([verifier.verify(ofRsa), verifier.verify(ofEc)]);

    keys.replace(jwksOf(ec));

    expect(await subjectIn(ofRsa, verifier)).toBe('rejected: unknownKey');
    expect(await subjectIn(ofEc, verifier)).toBe('ann');
  });

  test('as many as the configuration says, and those that are not valid not at all', async () => {
    const verifier = verifierOf({ settings: { cache_size: 3 } });

    for (let at = 0; at < 10; at += 1) await verifier.verify(tokenOf(ec, { jti: at }));
    for (const [, token] of REJECTED) await verifier.verify(token);

    expect(verifier.remembered).toBe(3);
  });

  test('or not at all', async () => {
    const verifier = verifierOf({ settings: { cache_size: 0 } });

    expect(await subjectIn(tokenOf(ec), verifier)).toBe('ann');

    expect(verifier.remembered).toBe(0);
  });
});

test('claims are texts and numbers that are asked for, and only those of the token itself', async () => {
  const verifier = verifierOf({ claims: ['sub', 'org', 'admin', 'constructor', 'long', 'empty'] });
  const token = tokenOf(ec, { org: 7, admin: true, long: 'x'.repeat(1025), empty: '', tenant: 'acme' });

  expect(await verifier.verify(token)).toEqual({
    claims: new Map([
      ['sub', 'ann'],
      ['org', '7'],
    ]),
  });
});

import { z } from 'zod';
import {
  cookieName,
  type DeepReadonly,
  duration,
  filePath,
  headerName,
  httpUrl,
  list,
  plainText,
  size,
} from './fields.ts';
import { clientTls } from './redis.ts';
import { name } from './rule.ts';

const MAX_KEYS_IN_CONFIG = 1000;
/** Of a file of keys. */
export const MAX_API_KEYS = 100_000;
const MAX_PLAN_POLICIES = 16;
/** As many as the library decides at once. */
export const MAX_PLAN_LIMITS = 32;

/** It goes into a header, into logs and onto command lines as it is. */
const KEY_NAME = /^[A-Za-z0-9][\w.@-]{0,63}$/;
const KEY_HASH = /^sha256:[\da-f]{64}$/;
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)$/;

function keyHash() {
  return z.string().regex(KEY_HASH, {
    error: 'must be "sha256:" and the 64 hexadecimal digits of the SHA-256 of the key, in lower case',
  });
}

/** A moment with its time zone; stays the text it is. */
function moment() {
  return z
    .string()
    .refine((text) => MOMENT.test(text) && Number.isFinite(Date.parse(text)), {
      error: 'must be a date and time with a time zone, such as "2027-01-31T00:00:00Z"',
    })
    .meta({ kind: 'date and time' });
}

/** A key that an application shows, as the gateway knows it: never the key itself. */
export const apiKeyEntry = z.strictObject({
  name: z
    .string()
    .regex(KEY_NAME, {
      error: "must have 1 to 64 letters, digits, '_', '-', '.' or '@', and begin with a letter or digit",
    })
    .meta({ description: 'Whom it is counted for, and what backends and logs see.' }),
  hash: keyHash().meta({ description: 'The SHA-256 of the key, as `sha256:...`.' }),
  plan: name().optional().meta({ description: 'The plan that gives it its policies.' }),
  expires: moment().optional().meta({ description: 'From then on it gets a 401.' }),
  disabled: z.boolean().default(false).meta({ description: 'It gets a 401.' }),
  previous: z
    .strictObject({
      hash: keyHash().meta({ description: 'The SHA-256 of the key before it was rotated.' }),
      until: moment().meta({ description: 'From then on the old key gets a 401.' }),
    })
    .optional()
    .meta({ description: 'The key before the last rotation, while it is still accepted.' }),
});

export type ApiKeyEntry = DeepReadonly<z.output<typeof apiKeyEntry>>;

const apiKeys = z.strictObject({
  header_name: headerName().default('X-API-Key').meta({
    description: 'The header with the key. In `Authorization` it stands behind `Bearer`.',
  }),
  query_parameter: plainText({ max: 64 }).optional().meta({
    description:
      'A query parameter that may have the key instead. URLs end up in logs and histories: prefer the header.',
  }),
  file: filePath().optional().meta({
    description:
      'A file of keys, which `spillgate api-keys` writes. Every worker reads it again within a second after it changed.',
  }),
  keys: list(apiKeyEntry, MAX_KEYS_IN_CONFIG)
    .default([])
    .meta({ description: 'Keys that stand in the configuration itself.' }),
});

/** Only signatures that the gateway can check and not make: whoever reads its memory gains nothing. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
] as const;

const jwks = z.strictObject({
  url: httpUrl().optional().meta({ description: 'Where the keys of the issuer are published.' }),
  file: filePath()
    .optional()
    .meta({ description: 'A file with the keys, instead of `url`. Read again when it changes.' }),
  refresh: duration({ min: 1000 }).prefault('10m').meta({ description: 'How often the URL is asked.' }),
  cooldown: duration({ min: 1000 }).prefault('30s').meta({
    description: 'How long a token with an unknown `kid` causes no other question to the URL.',
  }),
  wait: duration({ min: 0, max: 5000 }).prefault('500ms').meta({
    description: 'How long a request waits at most for keys that are being fetched.',
  }),
  timeout: duration({ min: 100, max: 60_000 })
    .prefault('5s')
    .meta({ description: 'How long an answer of the URL may take.' }),
  max_stale: duration({ min: 1000, max: 30 * 86_400_000 })
    .prefault('1d')
    .meta({
      description: 'How long keys are used while the URL cannot be asked again.',
    }),
  allow_private_network: z.boolean().default(false).meta({
    description: 'The URL may lead to private, loopback and link-local addresses.',
  }),
  tls: z.strictObject(clientTls()).prefault({}).meta({ description: 'TLS to the URL, if it is https.' }),
});

const jwt = z.strictObject({
  header_name: headerName()
    .default('Authorization')
    .meta({ description: 'The header with the token, behind `Bearer` if it is `Authorization`.' }),
  cookie: cookieName().optional().meta({ description: 'A cookie that may have the token instead.' }),
  jwks: jwks.meta({ description: 'The public keys that tokens are checked with.' }),
  issuer: list(plainText(), 16).min(1).meta({ description: 'Who may have issued a token: its `iss`.' }),
  audience: list(plainText(), 16).default([]).meta({
    description:
      'For whom a token may be issued: its `aud`. Empty: for anybody, so that a token for another service passes too.',
  }),
  algorithms: list(z.enum(ALGORITHMS), ALGORITHMS.length)
    .min(1)
    .meta({ description: 'How tokens may be signed. Name those that the issuer uses.' }),
  type: plainText({ max: 64 }).optional().meta({
    description: 'The `typ` that a token must have, such as `at+jwt`. Unset: any.',
  }),
  leeway: duration({ max: 300_000 })
    .prefault('30s')
    .meta({ description: "How far the issuer's clock may differ." }),
  on_invalid: z.enum(['reject', 'clientIP']).default('reject').meta({
    description:
      'Whether a request with a token that is not valid gets a 401 or is counted by its address, as one without a token.',
  }),
  max_token_bytes: size({ min: 256, max: 2 ** 16 })
    .prefault('8KiB')
    .meta({ description: 'The largest token.' }),
  cache_size: z.int().min(0).max(1_000_000).default(10_000).meta({
    description: 'Checked tokens that are remembered until they expire, per worker. 0: none.',
  }),
});

const plan = z.strictObject({
  policies: list(name(), MAX_PLAN_POLICIES).meta({
    description:
      'The policies that keys of this plan must pass, counted by the name of the key. They hold instead of those policies of a rule that have no key of their own.',
  }),
});

const passedOn = z.strictObject({
  key_name: headerName()
    .default('X-Spillgate-Key-Name')
    .meta({ description: 'Carries the name of the API key.' }),
  plan: headerName().default('X-Spillgate-Plan').meta({ description: 'Carries the plan of the API key.' }),
  subject: headerName()
    .default('X-Spillgate-Subject')
    .meta({ description: 'Carries the `sub` of a verified token, percent-encoded where it has to be.' }),
  certificate: headerName()
    .default('X-Spillgate-Certificate')
    .meta({ description: 'Carries the SHA-256 fingerprint of the client certificate.' }),
});

export const identity = z.strictObject({
  api_keys: apiKeys.optional().meta({ description: 'Keys that applications show.' }),
  jwt: jwt.optional().meta({ description: 'Tokens that the gateway verifies.' }),
  plans: z
    .record(name(), plan)
    .default({})
    .meta({ description: 'What keys may do, by the name of the plan.' }),
  headers: passedOn.prefault({}).meta({
    description:
      'Headers that tell backends who is asking. The gateway removes them from what clients send, also where it found nobody.',
  }),
});

export type IdentityConfig = DeepReadonly<z.output<typeof identity>>;
export type JwtConfig = NonNullable<IdentityConfig['jwt']>;
export type ApiKeysConfig = NonNullable<IdentityConfig['api_keys']>;

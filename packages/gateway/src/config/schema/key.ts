import { createHash } from 'node:crypto';
import { z } from 'zod';
import { cookieName, headerName, list, plainText, size } from './fields.ts';
import { isIP } from 'node:net';
import { clientAddress } from 'spillgate/http';

const clientIp = z.strictObject({
  type: z.literal('clientIP').meta({
    description:
      'Where the key comes from. `clientIP` and `global` without other settings may be written as a single word.',
  }),
});

const onMissing = () =>
  z
    .enum(['reject', 'clientIP'])
    .default('reject')
    .meta({ description: 'Whether a request without the key gets a 400 or is counted by its address.' });

const header = z.strictObject({
  type: z.literal('header'),
  header_name: headerName().meta({
    description:
      'The header that identifies the client. Headers that look like secrets, such as `Authorization` and those with key, token or secret in their name, are counted under their SHA-256 (`sha256:...`).',
  }),
  on_missing: onMissing(),
});

const pathParameter = z.strictObject({
  type: z.literal('pathParameter'),
  name: plainText({ max: 64 }).meta({
    description: 'A parameter of the path of the rule: `tenant` in `/t/{tenant}`.',
  }),
});

const cookie = z.strictObject({
  type: z.literal('cookie'),
  name: cookieName().meta({
    description: 'The cookie that identifies the client. It is counted under its SHA-256 (`sha256:...`).',
  }),
  on_missing: onMissing(),
});

const queryParameter = z.strictObject({
  type: z.literal('queryParameter'),
  name: plainText({ max: 64 }).meta({
    description:
      'The query parameter that identifies the client: `tenant` in `?tenant=acme`. Values of parameters whose name looks like a secret are counted under their SHA-256.',
  }),
  on_missing: onMissing(),
});

const clientCertificate = z.strictObject({
  type: z.literal('clientCertificate'),
  field: z.enum(['fingerprint', 'subject']).default('fingerprint').meta({
    description:
      'What of the TLS client certificate is the key: its SHA-256, or its subject, which stays the same when it is renewed.',
  }),
  on_missing: onMissing(),
});

const bodyField = z.strictObject({
  type: z.literal('bodyField'),
  name: plainText({ max: 64 }).meta({
    description:
      'A text at the top of a JSON body, of at most 256 bytes: `model` of a request to a language model. A body that names it twice, later or not as a text gets a 400.',
  }),
  max_bytes: size({ min: 1024, max: 1_048_576 }).prefault('64KiB').meta({
    description: 'It has to come within so many bytes, which are kept until the request is decided.',
  }),
  on_missing: onMissing(),
});

const apiKey = z.strictObject({
  type: z.literal('apiKey'),
  on_missing: onMissing(),
});

const jwtClaim = z.strictObject({
  type: z.literal('jwtClaim'),
  claim: plainText({ max: 128 }).meta({ description: 'The claim to count by, such as `sub`.' }),
  verified: z.boolean().meta({
    description:
      'Whether the gateway checks the token, as `identity.jwt` says. Required: with `false` anyone can claim to be anyone, unless something in front of the gateway checks tokens.',
  }),
  header_name: headerName().default('Authorization').meta({
    description: 'With `verified: false`: the header with the token, with or without `Bearer`.',
  }),
  on_missing: onMissing(),
});

const global = z.strictObject({
  type: z.literal('global'),
  global_key: plainText({ max: 128 })
    .default('global')
    .meta({ description: 'The key that all requests share.' }),
});

/** Where one part of a composite key comes from. */
const part = z.discriminatedUnion('type', [
  clientIp,
  header,
  pathParameter,
  jwtClaim,
  cookie,
  queryParameter,
  clientCertificate,
  bodyField,
  apiKey,
]);

const composite = z.strictObject({
  type: z.literal('composite'),
  header_name: headerName().optional().meta({ description: 'One part is this header. Instead of `parts`.' }),
  path_prefix: z
    .boolean()
    .default(false)
    .meta({ description: 'With `header_name`: adds the first segment of the path as a second part.' }),
  parts: list(part, 8).min(2).optional().meta({ description: 'The parts of the key, in order.' }),
});

const strategy = z.discriminatedUnion('type', [
  clientIp,
  header,
  composite,
  pathParameter,
  jwtClaim,
  cookie,
  queryParameter,
  clientCertificate,
  bodyField,
  apiKey,
  global,
]);

/** `clientIP` and `global` may be written as a word. */
const word = z.codec(
  z.enum(['clientIP', 'global']),
  z.discriminatedUnion('type', [
    clientIp,
    z.strictObject({ type: z.literal('global'), global_key: z.literal('global') }),
  ]),
  {
    decode: (type) => (type === 'clientIP' ? { type } : { type, global_key: type }),
    encode: ({ type }) => type,
  },
);

/** Who is counted. */
export function keyStrategy() {
  return z.union([word, strategy]);
}

const NO_LINES = (): readonly string[] => [];

/**
 * What clients are counted under, from how someone writes their address: `2001:db8::/64` for `2001:DB8::1`, `192.0.2.1`
 * for `::ffff:192.0.2.1`. Networks of that length get their one spelling; what is neither stays as it is.
 */
export function addressKeys(ipv6Prefix: number): (text: string) => string {
  const clientOf = clientAddress({ ipv6Prefix });
  return (text) => {
    const [address = '', bits, ...rest] = text.split('/');
    if (isIP(address) === 0 || rest.length > 0) return text;
    const key = clientOf({ peer: address, headerLines: NO_LINES }).key ?? text;
    return bits === undefined || key.endsWith(`/${bits}`) ? key : text;
  };
}

/** What such a header says is a secret, or may be one. */
const SECRET_HEADER = /authori[sz]ation|auth|cookie|credential|jwt|key|passw|secret|session|signature|token/;
const HASHED = /^sha256:[\da-f]{32}$/;
const HASH_DIGITS = 32;

/** Whether the value of a header or a parameter may be a secret: then its hash is the key. By its lower-case name. */
export function isSecretHeader(name: string): boolean {
  return SECRET_HEADER.test(name);
}

/** A secret as it is counted, logged and shown. Already in this form, as copied from a log, it stays as it is. */
export function hashedKey(value: string): string {
  if (HASHED.test(value)) return value;
  return secretKey(value);
}

/** The same for a secret that a client sent, which may look like anything. */
export function secretKey(value: string): string {
  return `sha256:${createHash('sha256').update(value).digest('hex').slice(0, HASH_DIGITS)}`;
}

/** `4:acme,3:api` is acme and api; undefined for what is not written so. */
export function compositeParts(key: string): readonly string[] | undefined {
  const parts: string[] = [];
  for (let at = 0; ; at += 1) {
    const length = /^(\d{1,5}):/.exec(key.slice(at, at + 6));
    if (length === null) return undefined;
    const start = at + length[0].length;
    at = start + Number(length[1]);
    parts.push(key.slice(start, at));
    if (at >= key.length) return at === key.length ? parts : undefined;
    if (key[at] !== ',') return undefined;
  }
}

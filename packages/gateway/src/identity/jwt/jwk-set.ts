// What a JWK Set says (RFC 7517 §5). Without what checks tokens: a configuration is checked where none come.
import { z } from 'zod';
import { pathText, type Path } from '../../config/path.ts';
import type { PemFile } from '../../config/pem-files.ts';
import { SettingError } from '../../config/problem.ts';
import { jsonTrap } from '../../external/strict-json.ts';

export const JWKS_FILE: Path = ['identity', 'jwt', 'jwks', 'file'];

const MAX_KEYS = 100;
/** RFC 7517 §4, and RFC 7518 §6: what a private or a shared key has. */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv'];

const jwkSet = z.object({
  keys: z.array(z.looseObject({ kty: z.string() })).max(MAX_KEYS, `has more than ${MAX_KEYS} keys`),
});

/** Keys that cannot be used, and why. The message continues "the key set ...". */
class KeySetError extends Error {}

/** Throws a `KeySetError`. */
export function publicKeysIn(text: string): z.infer<typeof jwkSet>['keys'] {
  const parsed = jwkSet.safeParse(jsonIn(text));
  if (!parsed.success) throw new KeySetError('is not a JWK Set: expected {"keys": [...]}');
  const { keys } = parsed.data;
  if (keys.length === 0) throw new KeySetError('has no keys');
  if (keys.some((key) => PRIVATE_MEMBERS.some((member) => Object.hasOwn(key, member)))) {
    throw new KeySetError('has a private or a shared key; expected public keys only');
  }
  return keys;
}

/** What `read` makes of the file of keys. Throws a `SettingError` if they cannot be used. */
export function readKeyFile<Read>(
  { file, text }: Pick<PemFile, 'file' | 'text'>,
  read: (text: string) => Read,
): Read {
  try {
    return read(text);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SettingError(
      JWKS_FILE,
      `${pathText(JWKS_FILE)}: ${file} ${why}`,
      'Name a file with the public keys of the issuer, as its jwks_uri shows them.',
      { cause },
    );
  }
}

function jsonIn(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new KeySetError('is not JSON', { cause });
  }
  const trap = jsonTrap(text);
  if (trap !== undefined) throw new KeySetError(trap);
  return value;
}

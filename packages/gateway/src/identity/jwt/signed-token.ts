import { jsonTrap } from '../../external/strict-json.ts';

/** Why a token is not accepted. Logs and metrics tell which; the client hears whether it has expired, and no more. */
export type TokenRejection =
  | 'malformed'
  | 'algorithm'
  | 'unknownKey'
  | 'signature'
  | 'issuer'
  | 'audience'
  | 'type'
  | 'claims'
  | 'notYetValid'
  | 'expired'
  | 'keysUnavailable';

/** What a token says of itself, before anybody has checked its signature. */
export interface SignedToken {
  readonly algorithm: string;
  readonly keyId: string | undefined;
  readonly claims: Readonly<Record<string, unknown>>;
  readonly expiresAtSeconds: number;
}

const MAX_KEY_ID_LENGTH = 256;
const COMPACT = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/;

/**
 * Reads a token in the only way that leaves no doubt: three parts of base64url as its encoder writes them, JSON objects
 * without repeated names, no extension that has to be understood (`crit`), and an end (`exp`). Where a token says that
 * its key is to be found (`jku`, `x5u`, `jwk`, `x5c`) is never looked at: keys come from the configuration alone.
 */
export function readToken(
  token: string,
  { maxBytes, algorithms }: { readonly maxBytes: number; readonly algorithms: readonly string[] },
): SignedToken | TokenRejection {
  if (token.length > maxBytes) return 'malformed';
  const [, first = '', second = '', third = ''] = COMPACT.exec(token) ?? [];
  const header = objectIn(first);
  const claims = objectIn(second);
  if (header === undefined || claims === undefined || bytesIn(third) === undefined) return 'malformed';
  const { alg, kid } = header;
  if (Object.hasOwn(header, 'crit') || Object.hasOwn(header, 'b64')) return 'malformed';
  if (typeof alg !== 'string' || !algorithms.includes(alg)) return 'algorithm';
  if (kid !== undefined && (typeof kid !== 'string' || kid === '' || kid.length > MAX_KEY_ID_LENGTH)) {
    return 'malformed';
  }
  const { exp } = claims;
  if (typeof exp !== 'number' || !Number.isFinite(exp)) return 'claims';
  return { algorithm: alg, keyId: kid, claims, expiresAtSeconds: exp };
}

/** Undefined for what an encoder writes otherwise: padding, bits behind the end, a length that cannot be. */
function bytesIn(part: string): Buffer | undefined {
  const bytes = Buffer.from(part, 'base64url');
  return part !== '' && bytes.toString('base64url') === part ? bytes : undefined;
}

function objectIn(part: string): Readonly<Record<string, unknown>> | undefined {
  const bytes = bytesIn(part);
  if (bytes === undefined) return undefined;
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    const value: unknown = JSON.parse(text);
    return isObject(value) && jsonTrap(text) === undefined ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * A claim of a JSON Web Token (RFC 7519) as text, or undefined if there is none. The signature is not looked at: whoever uses
 * this has something in front of the gateway that checks it.
 */
export function readClaim(header: string, claim: string): string | undefined {
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

/** Only what the token itself says: `constructor` is no claim of every token. */
function claimOf(payload: unknown, claim: string): unknown {
  if (typeof payload !== 'object' || payload === null || !Object.hasOwn(payload, claim)) return undefined;
  return Reflect.get(payload, claim);
}

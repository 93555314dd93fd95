import type { HeaderPair } from 'spillgate/http';
import type { IdentityConfig } from '../config/schema/identity.ts';

/** An API key that was accepted. */
export interface AcceptedKey {
  readonly name: string;
  readonly plan: string | undefined;
}

/** A token whose signature and claims were checked. */
export interface VerifiedToken {
  /** Those claims that are texts or numbers, as text. */
  readonly claims: ReadonlyMap<string, string>;
}

/** The certificate that a client showed in the TLS handshake, signed by an authority of the configuration. */
export interface ClientCertificate {
  /** The SHA-256 of the certificate in 64 hexadecimal digits. */
  readonly fingerprint: string;
  /** Its subject on one line, such as `O=Acme,CN=billing`. */
  readonly subject: string;
}

/** Why a request is refused because of what it shows, whatever the rules say. */
export interface IdentityProblem {
  /** What was not accepted and why, for operators: `apiKey expired`. The client never hears it. */
  readonly rejected: string;
  readonly status: 401 | 503;
  readonly detail: string;
  /** What the client may do instead: `WWW-Authenticate` (RFC 9110 §11.6.1), or `Retry-After`. */
  readonly header: readonly [name: string, value: string];
}

/** Who is asking, as far as a request proves it. */
export interface Identity {
  readonly apiKey?: AcceptedKey | undefined;
  readonly token?: VerifiedToken | undefined;
  /** It showed a token that is not valid, and is to be counted by its address. */
  readonly invalidToken?: boolean | undefined;
  readonly problem?: IdentityProblem | undefined;
}

/** What a request shows. */
export interface ShownCredentials {
  readonly headers: { lines(name: string): readonly string[] };
  /** `?a=b`, or empty. */
  readonly query: string;
}

/** What a client may show: RFC 9110 §11.6.1. */
export const TOKEN_CHALLENGE = 'Bearer realm="spillgate"';
export const KEY_CHALLENGE = 'ApiKey realm="spillgate"';

export const NOBODY: Identity = {};

/** Finds out who is asking. Belongs to one configuration. */
export interface Identifier {
  /** At once where nothing has to be computed or fetched. Never rejects. */
  identify(request: ShownCredentials): Identity | Promise<Identity>;
}

/** What is known of whoever is asking. */
interface KnownClient {
  readonly identity?: Identity | undefined;
  readonly certificate?: ClientCertificate | undefined;
}

/** Visible ASCII but for the percent sign, which marks what is not. */
const UNSAFE = /[^!-$&-~]/gu;

/** The headers that tell a backend who is asking. */
export function identityHeaders(
  names: IdentityConfig['headers'],
  { identity, certificate }: KnownClient,
): readonly HeaderPair[] {
  const headers: HeaderPair[] = [];
  const add = (name: string, value: string | undefined): void => {
    if (value !== undefined) headers.push([name, value.replaceAll(UNSAFE, percentEncoded)]);
  };
  add(names.key_name, identity?.apiKey?.name);
  add(names.plan, identity?.apiKey?.plan);
  add(names.subject, identity?.token?.claims.get('sub'));
  add(names.certificate, certificate?.fingerprint);
  return headers;
}

/** Never throws, unlike `encodeURIComponent`: half a surrogate becomes the replacement character. */
function percentEncoded(character: string): string {
  return [...Buffer.from(character, 'utf8')]
    .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`)
    .join('');
}

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
